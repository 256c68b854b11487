// What is told of a ledger whose database does not answer.
#include <gtest/gtest.h>

#include <string>

#include "filters/ledger/memory/make_memory_ledger.h"
#include "proxy/base/clock.h"
#include "proxy/telemetry/metrics.h"
#include "tests/support/faulty_ledger.h"

namespace recourse::scrape_test {
namespace {

class ScrapeTest : public testing::Test {
 protected:
  std::string Scraped() {
    return metrics_.Scrape(ledger_, ScrapeFacts(), Metrics::Format::kPrometheusText);
  }
  bool Has(const std::string& line) { return Scraped().find("\n" + line) != std::string::npos; }

  const SystemClock clock_;
  FaultyLedger ledger_{MakeMemoryLedger(clock_)};
  Metrics metrics_{clock_.WallNow()};
};

TEST_F(ScrapeTest, WhatTheDatabaseCountedLastIsToldOn) {
  LedgerStats stats;
  stats.flows_parked = 3;
  stats.counted_ms = 1'790'000'000'000;
  stats.is_away = true;
  ledger_.stats = stats;
  EXPECT_TRUE(Has("recourse_flows_parked 3\n"));
  EXPECT_TRUE(Has("recourse_approvals_pending 0\n"));
}

// A zero would say that nothing waits.
TEST_F(ScrapeTest, WhatNobodyKnowsIsLeftOut) {
  LedgerStats stats;
  stats.is_away = true;
  ledger_.stats = stats;
  for (const char* const name :
       {"recourse_flows_parked", "recourse_flows_stopped", "recourse_flows{", "recourse_events{",
        "recourse_approvals_pending", "recourse_flows_parked_oldest_timestamp_seconds",
        "recourse_store_map_used_bytes", "recourse_event_oldest_pending_timestamp_seconds"}) {
    EXPECT_FALSE(Has(name)) << name;
  }
  EXPECT_TRUE(Has("recourse_store_rows 0\n"));
  ledger_.stats.reset();
  EXPECT_TRUE(Has("recourse_flows_parked 0\n"));
}

}  // namespace
}  // namespace recourse::scrape_test
