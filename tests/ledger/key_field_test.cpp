// Under which key a further attempt may be sent: the one of the first attempt, or none.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "filters/call/key_placeholder.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::key_field_test {
namespace {

using Kind = Begun::Kind;
using Field = std::optional<std::string>;

constexpr std::uint64_t kDomain = 7;

class KeyFieldTest : public testing::TestWithParam<Store> {
 protected:
  static NewOperation Keyed(const Field& field) {
    NewOperation call = Call("k");
    call.event.dedupe_domain = kDomain;
    call.event.key_field = field;
    call.may_resend = true;
    return call;
  }
  void StartAnew() {
    ledger_.reset();
    place_.emplace(GetParam());
    ledger_ = place_->Open(clock_);
  }
  Begun Begin(NewOperation call) {
    return *Await(ledger_->Begin(std::move(call), executor_), executor_);
  }
  Event Record(Transition transition) {
    return *Await(ledger_->Record(std::move(transition), executor_), executor_);
  }
  Event Unknown(NewOperation call) {
    return Record(Move(Begin(std::move(call)).event, Phase::kUncertain, Cause::kTimeout));
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  std::optional<StoredLedger> place_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = place_->Open(clock_);
};

TEST_P(KeyFieldTest, ARepeatUnderAnotherKeyIsToldTheFirstOne) {
  for (const Phase phase : {Phase::kUncertain, Phase::kNotSent, Phase::kProvenAbsent}) {
    StartAnew();
    Event last = Begin(Keyed("\"pay-1\"")).event;
    if (phase == Phase::kProvenAbsent) last = Record(Move(last, Phase::kUncertain));
    last = Record(Move(last, phase));
    for (const Field& other : {Field(""), Field("pay-1"), Field("\"pay\\-1\""), Field()}) {
      const Begun begun = Begin(Keyed(other));
      EXPECT_EQ(begun.kind, Kind::kOtherKey);
      EXPECT_EQ(begun.event.key_field, "\"pay-1\"");
      EXPECT_EQ(SentKey(begun.event, KeyRule()), "pay-1");
    }
    const Begun begun = Begin(Keyed("\"pay-1\""));
    EXPECT_EQ(begun.kind, Kind::kFresh);
    EXPECT_EQ(begun.event.attempt, 2);
  }
}

TEST_P(KeyFieldTest, WithoutAFieldTheOperationsOwnKeyStays) {
  const Event last = Unknown(Keyed(""));
  EXPECT_EQ(SentKey(last, KeyRule()), ToHex(last.key));
  const Begun begun = Begin(Keyed("pay-1"));
  EXPECT_EQ(begun.kind, Kind::kOtherKey);
  EXPECT_EQ(begun.event.key_field, "");
  EXPECT_EQ(Begin(Keyed("")).kind, Kind::kFresh);
}

// What an earlier version wrote says nothing of it.
TEST_P(KeyFieldTest, AnUnknownWhoseKeyNobodyKnowsStaysUnknown) {
  Event last = Unknown(Keyed(std::nullopt));
  EXPECT_EQ(Begin(Keyed("pay-1")).kind, Kind::kUnknown);
  EXPECT_EQ(Begin(Keyed("")).kind, Kind::kUnknown);
  EXPECT_TRUE(WasSentUnderOneKey(last));
  last.attempt = 2;
  EXPECT_FALSE(WasSentUnderOneKey(last));
  // It has not taken effect, so whatever key comes now is the first.
  Record(Move(*ledger_->Find(last.id).value(), Phase::kProvenAbsent, Cause::kHuman));
  const Begun begun = Begin(Keyed("pay-1"));
  EXPECT_EQ(begun.kind, Kind::kFresh);
  EXPECT_EQ(begun.event.key_field, "pay-1");
}

TEST_P(KeyFieldTest, OfAnOperationThatNoAgentNamedTheKeyIsKnownInEveryVersion) {
  NewOperation first = Keyed(std::nullopt);
  first.event.intent = DigestOf("intent");
  (void)Unknown(std::move(first));
  NewOperation again = Keyed("");
  again.event.intent = DigestOf("intent");
  EXPECT_EQ(Begin(std::move(again)).kind, Kind::kFresh);
}

TEST_P(KeyFieldTest, WhoHasTheRequestThatWasSentMayAlwaysSendIt) {
  NewOperation resend = Keyed(std::nullopt);
  resend.event = Unknown(Keyed(std::nullopt));
  resend.event.key_field = "pay-1";
  resend.passes_fence = true;
  const Begun begun = Begin(std::move(resend));
  EXPECT_EQ(begun.kind, Kind::kFresh);
  EXPECT_EQ(begun.event.key_field, "pay-1");
}

TEST_P(KeyFieldTest, ARowKeepsItByteForByteAlsoEmpty) {
  for (const Field& field : {Field(), Field(""), Field("\"a \\\" b\""), Field("pay-1")}) {
    Event event = Begin(Keyed(field)).event;
    event.request = RenderedRequest{"POST", "/", {}, "{}"};
    std::string bytes;
    AppendEventRow(bytes, event, DigestOf("previous"), nullptr);
    const auto row = ParseRow(bytes);
    ASSERT_TRUE(row);
    RowDecryptor opener(nullptr);
    for (const AnswerPart part : {AnswerPart::kLoad, AnswerPart::kSkipBody}) {
      Event read;
      ASSERT_TRUE(DecodeEvent(*row, part, opener, read));
      EXPECT_EQ(read.key_field, field);
      EXPECT_EQ(read.phase, event.phase);
    }
    StartAnew();
  }
}

// An answer tells the operation's key, and who says it back means that operation.
TEST_P(KeyFieldTest, AnOperationsOwnKeyNamesIt) {
  const Event last = Unknown(Call("k"));
  NewOperation echo = Call("another key");
  echo.named = last.key;
  EXPECT_EQ(Begin(echo).kind, Kind::kUnknown);
  NewOperation changed = echo;
  changed.event.args_hash = DigestOf("other");
  EXPECT_EQ(Begin(std::move(changed)).kind, Kind::kConflict);
  for (std::string Event::* part : {&Event::caller, &Event::tool}) {
    NewOperation other = Call("key of " + last.*part);
    other.named = last.key;
    other.event.*part = "another";
    const Begun begun = Begin(std::move(other));
    EXPECT_EQ(begun.kind, Kind::kFresh);
    EXPECT_NE(begun.event.operation, last.operation);
  }
  (void)Record(Move(*ledger_->Find(last.id).value(), Phase::kProvenAbsent, Cause::kHuman));
  const Begun begun = Begin(echo);
  EXPECT_EQ(begun.kind, Kind::kFresh);
  EXPECT_EQ(begun.event.operation, last.operation);
  EXPECT_EQ(begun.event.key, last.key);
}

INSTANTIATE_TEST_SUITE_P(Stores, KeyFieldTest, testing::Values(Store::kMemory, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::key_field_test
