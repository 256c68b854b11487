#include "proxy/cli/process_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "filters/ledger/ledger.h"
#include "proxy/admin/views/event_view.h"

namespace recourse::process_client_test {
namespace {

using testing::HasSubstr;

// What a person is told of writes, by what the process says of its ledger.
std::string Told(const LedgerStats& stats) {
  const auto json = ParseJson(ToJson(stats));
  return json ? WritesOf(*json) : "no JSON";
}

TEST(ProcessClientTest, WhyWritesAreRefusedOrSoonWillBeIsTold) {
  EXPECT_EQ(Told({}), "accepted");
  EXPECT_THAT(Told({.is_index_failing = true}), HasSubstr("the key index cannot be written"));
  EXPECT_THAT(Told({.is_full = true, .is_index_failing = true}), HasSubstr("refused: there is no"));
  EXPECT_THAT(Told({.restored = true}), HasSubstr("recourse ledger accept"));
  EXPECT_THAT(Told({.latched = true}), HasSubstr("until a restart"));
  EXPECT_EQ(Told({.is_away = true, .refused = "ERROR:  permission denied"}),
            "refused by the ledger's database, until it takes one: ERROR:  permission denied");
}

}  // namespace
}  // namespace recourse::process_client_test
