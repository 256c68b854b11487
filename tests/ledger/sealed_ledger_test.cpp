// A ledger whose rows are sealed: keys come and go between starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "filters/ledger/memory/memory_event_log.h"
#include "filters/ledger/postgres/upkeep/audit.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rows/row_encryption.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/support/seeded_random.h"

namespace recourse::sealed_ledger_test {
namespace {

using testing::HasSubstr;

class SealedLedgerTest : public testing::TestWithParam<Store> {
 protected:
  std::string Open(const std::string& key_file, const std::string& install_id = "install-1") {
    ledger.reset();
    if (is_shared()) {
      if (url.empty()) url = FreshPostgresLedger();
      keys = std::make_shared<LedgerKeys>(*KeyRing::Parse(key_file), random);
      auto opened = TryOpenTestPostgres(url, clock, keys, install_id);
      if (!opened) return opened.error();
      ledger = std::move(*opened);
      return "";
    }
    auto opened = OpenLmdbLedger(
        {.directory = directory.data(),
         .map_bytes = 1U << 30,
         .unsafe_fs = true,
         .secrets = [&](const LedgerFacts& found) -> std::expected<LedgerSecrets, std::string> {
           facts = found;
           return LedgerSecrets{std::make_shared<LedgerKeys>(*KeyRing::Parse(key_file), random),
                                install_id};
         }},
        clock);
    if (!opened) return opened.error();
    ledger = std::move(*opened);
    return "";
  }
  static bool is_shared() { return GetParam() == Store::kPostgres; }
  // Of a shared ledger all streams.
  VerifyReport Verify() {
    if (!is_shared()) return ledger->Verify();
    PgReader reader{PgOptions{.url = url}};
    const auto streams = ListPgStreams(reader);
    EXPECT_TRUE(streams);
    VerifyReport report;
    report.ok = true;
    for (const PgStream& stream : *streams) {
      if (report.ok) report = VerifyPgStream(reader, keys, stream);
    }
    return report;
  }
  Begun Begin(NewOperation call) {
    auto begun = Await(ledger->Begin(std::move(call), executor), executor);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    if (begun && begun->commit) EXPECT_TRUE(Await(begun->commit->Durable(), executor));
    return begun ? std::move(*begun) : Begun();
  }
  Result<Event> Record(Transition transition) {
    return Await(ledger->Record(std::move(transition), executor), executor);
  }

  TempDirectory directory;
  ManualClock clock;
  PumpedExecutor executor;
  SeededRandom random{3};
  std::unique_ptr<Ledger> ledger;
  LedgerFacts facts;
  std::string url;
  SharedKeys keys;
  const std::string k1 = NewKeyLine("k1", random), k2 = NewKeyLine("k2", random);
};

NewOperation CallWithProbe(std::string_view key) {
  NewOperation call = Call(key);
  call.event.settle = RenderedRequest{"GET", "/orders?ref=1", {}, ""};
  call.event.request = RenderedRequest{"POST", "/orders", {}, "sealed"};
  return call;
}

TEST_P(SealedLedgerTest, FactsTellWhatAFreshAndAUsedLedgerHold) {
  if (is_shared()) GTEST_SKIP() << "they are those of a directory";
  ASSERT_EQ(Open(k1), "");
  EXPECT_FALSE(facts.has_events || facts.sealed_with);
  Begin(Call("a"));
  ASSERT_EQ(Open(k1), "");
  ASSERT_TRUE(facts.has_events && facts.sealed_with);
  EXPECT_EQ(facts.sealed_with->id, "k1");
}

TEST_P(SealedLedgerTest, AnotherInstallSecretIsRefused) {
  ASSERT_EQ(Open(k1), "");
  ASSERT_EQ(Open(k1), "");
  EXPECT_THAT(Open(k1, "install-2"), HasSubstr("install.secret"));
  EXPECT_EQ(Open(k1), "");
}

TEST_P(SealedLedgerTest, WhatRanUnderALostKeyWaitsForItAndIsNeverRunAgain) {
  ASSERT_EQ(Open(k1), "");
  const Event running = Begin(CallWithProbe("a")).event;
  ASSERT_EQ(Open(k2), "");
  const Begun again = Begin(CallWithProbe("a"));
  EXPECT_EQ(again.kind, Begun::Kind::kUnknown);
  EXPECT_TRUE(again.event.is_locked);
  EXPECT_FALSE(Record(Move(running, Phase::kUncertain, Cause::kCrash)));
  EXPECT_EQ(Begin(Call("b")).kind, Begun::Kind::kFresh);

  ASSERT_EQ(Open(k2 + k1), "");
  // Of a shared one whoever lives takes it over.
  EXPECT_TRUE(
      *Await(ledger->Join(running.operation, clock.Now() + Millis(60'000), executor), executor));
  const Begun found = Begin(CallWithProbe("a"));
  EXPECT_EQ(found.kind, Begun::Kind::kUnknown);
  EXPECT_EQ(found.event.phase, Phase::kUncertain);
  EXPECT_EQ(found.event.cause, is_shared() ? Cause::kOwnerLost : Cause::kCrash);
  ASSERT_TRUE(found.event.settle);  // and it can be probed
  EXPECT_EQ(found.event.settle->target, "/orders?ref=1");
  EXPECT_TRUE(Verify().ok);
}

// Its attempts carried a key that only the row tells.
TEST_P(SealedLedgerTest, WhatHadNoEffectUnderALostKeyIsNotSentBeforeTheKeyIsBack) {
  NewOperation call = Call("a");
  call.event.key_field = "pay-1";
  ASSERT_EQ(Open(k1), "");
  ASSERT_TRUE(Record(Move(Begin(call).event, Phase::kNotSent, Cause::kConnectFailed)));
  ASSERT_EQ(Open(k2), "");
  for (const char* field : {"pay-1", ""}) {
    NewOperation repeat = call;
    repeat.event.key_field = field;
    const auto refused = Await(ledger->Begin(std::move(repeat), executor), executor);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().detail(), HasSubstr("not among the ledger's keys"));
  }
  ASSERT_EQ(Open(k2 + k1), "");
  const Begun again = Begin(call);
  EXPECT_EQ(again.kind, Begun::Kind::kFresh);
  EXPECT_EQ(again.event.attempt, 2);
}

// The row moves on as it is, again and again; nothing stays behind it for want of its key.
TEST_P(SealedLedgerTest, RetentionPassesARowWhoseKeyIsLostAndKeepsItForItsReturn) {
  if (is_shared()) GTEST_SKIP() << "there no row moves";
  const LedgerRule rule{.retention = Millis(1'000), .tombstones = Millis(100'000)};
  ASSERT_EQ(Open(k1), "");
  const Event unknown =
      *Record(Move(Begin(CallWithProbe("a")).event, Phase::kUncertain, Cause::kTimeout));
  ASSERT_EQ(Open(k2), "");
  const auto live = [&] {
    ledger->SetRule(rule);
    const std::uint64_t carried = ledger->Stats().locked_carried;
    testing::internal::CaptureStderr();
    while (ledger->Stats().locked_carried == carried) {
      clock.Advance(Millis(60));
      Begin(Call("again"));
    }
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("an open operation that cannot be read is kept beyond the retention"));
  };
  live();
  live();
  EXPECT_GT(ledger->Stats().first_id, unknown.id);
  EXPECT_TRUE(Begin(CallWithProbe("a")).event.is_locked);
  EXPECT_EQ(Verify().check, "key");

  ASSERT_EQ(Open(k2 + k1), "");
  EXPECT_TRUE(Verify().ok) << Verify().problem;
  const Begun found = Begin(CallWithProbe("a"));
  EXPECT_EQ(found.kind, Begun::Kind::kUnknown);
  EXPECT_EQ(found.event.operation, unknown.operation);
  EXPECT_FALSE(found.event.is_locked);
  EXPECT_EQ(found.event.request->body, "sealed");
  ASSERT_TRUE(found.event.settle);
  EXPECT_EQ(found.event.settle->target, "/orders?ref=1");
  ASSERT_TRUE(Record(Success(found.event)));
  EXPECT_EQ(Begin(CallWithProbe("a")).kind, Begun::Kind::kReplay);
  EXPECT_TRUE(Verify().ok);
}

TEST_P(SealedLedgerTest, VerifyNamesTheRowAndTheKeyThatIsMissing) {
  ASSERT_EQ(Open(k1), "");
  const Event event = Begin(Call("a")).event;
  ASSERT_TRUE(Record(Success(event)));
  ASSERT_EQ(Open(k2), "");
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.check, "key");
  EXPECT_EQ(report.bad_row, event.id);
  EXPECT_THAT(report.problem, HasSubstr("sealed with key 'k1'"));
  EXPECT_THAT(report.problem, HasSubstr("in 2 rows was not checked"));
  const auto shown = ledger->Find(event.id);
  ASSERT_TRUE(shown && *shown);
  EXPECT_THAT((*shown)->detail, HasSubstr("sealed with key 'k1'"));
}

// It may be another process's, with keys of its own.
TEST_P(SealedLedgerTest, WhatWaitsForAHumanIsListedWithoutItsKeyAndNeverDecided) {
  NewOperation call = Call("a");
  call.event.request = RenderedRequest{"POST", "/orders", {}, "sealed"};
  call.approval = {
      .needed = 1, .by = {"team"}, .expires = Millis(60'000), .policy = DigestOf("p"), .why = ""};
  ASSERT_EQ(Open(k1), "");
  const Event asked = Begin(call).event;
  ASSERT_EQ(Open(k2), "");
  const auto claims = Await(ledger->Claims(0, 100, executor), executor);
  ASSERT_TRUE(claims && claims->size() == 1);
  const Event& listed = claims->front().event;
  EXPECT_TRUE(listed.is_locked && !listed.approval && !listed.request);
  EXPECT_EQ(listed.operation, asked.operation);
  EXPECT_EQ(listed.phase, Phase::kClaimed);
  EXPECT_EQ(listed.tool, asked.tool);
  EXPECT_THAT(listed.detail, HasSubstr("key 'k1'"));
  for (const auto kind : {ApprovalOrder::Kind::kApprove, ApprovalOrder::Kind::kReject,
                          ApprovalOrder::Kind::kExpire}) {
    const auto decided =
        Await(ledger->Decide({.kind = kind, .operation = asked.operation, .by = {"ann", {"team"}}},
                             executor),
              executor);
    ASSERT_FALSE(decided);
    EXPECT_THAT(decided.error().detail(), HasSubstr("not among the ledger's keys"));
  }
}

// Whatever is missing, and wherever, the chain is followed to its end.
TEST(RowsWithoutTheirKey, HideNothingThatIsWrongBehindThem) {
  SeededRandom random{3};
  const auto sealed = [&](std::string_view id) {
    return RowEncryptor(
        std::make_shared<LedgerKeys>(*KeyRing::Parse(NewKeyLine(id, random)), random));
  };
  RowEncryptor first = sealed("k1"), other = sealed("k3");
  const auto rows = [&](bool is_broken) {
    std::vector<std::string> made;
    Digest before{};
    for (std::uint64_t seq = 1; seq <= 4; ++seq) {
      Event event = Call("a").event;
      event.id = event.operation = seq;
      event.epoch = 1;
      event.phase = Phase::kDispatching;
      AppendEventRow(made.emplace_back(), event, before, seq % 2 == 1 ? &first : &other);
      if (!is_broken || seq != 3) before = RowHash(made.back());
    }
    return made;
  };
  for (const bool is_broken : {false, true}) {
    MemoryEventLog log;
    RowBatch batch;
    batch.first_seq = 1;
    const auto made = rows(is_broken);
    for (const std::string& row : made) {
      batch.bytes += row;
      batch.ends.push_back(batch.bytes.size());
    }
    ASSERT_TRUE(log.Append(batch));
    const VerifyReport report = VerifyLog(log, nullptr, made.size(), RowHash(made.back()));
    EXPECT_FALSE(report.ok);
    EXPECT_EQ(report.check, is_broken ? "chain" : "key");
    EXPECT_EQ(report.bad_row, is_broken ? 4U : 1U);
    EXPECT_EQ(report.rows, is_broken ? 3U : 4U);
    if (is_broken) continue;
    EXPECT_THAT(report.problem, HasSubstr("sealed with keys 'k1' (check "));
    EXPECT_THAT(report.problem, HasSubstr("'k3' (check "));
    EXPECT_THAT(report.problem, HasSubstr("in 4 rows was not checked"));
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, SealedLedgerTest, testing::Values(Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::sealed_ledger_test
