// An embedded ledger that goes on in PostgreSQL: every fact that its rows tell is a fact there.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/open/shared_import.h"
#include "filters/ledger/postgres/import/import_stream.h"
#include "filters/ledger/postgres/import/imported_tables.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/postgres/upkeep/audit.h"
#include "filters/ledger/postgres/upkeep/table_check.h"
#include "filters/ledger/shared_view.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_relay.h"
#include "tests/ledger/postgres_server.h"

namespace recourse::postgres_import_test {
namespace {

using Kind = Begun::Kind;

class ImportTest : public testing::Test {
 protected:
  static std::expected<LedgerSecrets, std::string> Secrets(const LedgerFacts& /*of*/) {
    return LedgerSecrets{nullptr, "install-1"};
  }
  LmdbLedgerOptions Options() const {
    return {.directory = directory_.data(),
            .map_bytes = 1U << 30,
            .unsafe_fs = true,
            .secrets = Secrets};
  }
  void OpenVolume() {
    auto opened = OpenLmdbLedger(Options(), clock_);
    ASSERT_TRUE(opened) << opened.error();
    ledger_ = std::move(*opened);
  }
  std::expected<std::string, std::string> Import() {
    ledger_.reset();
    auto said = ImportLedger(
        {.from = Options(),
         .to = {.url = {.store = LedgerUrl::Store::kPostgres, .place = url_}, .password_file = ""},
         .group = "shop/checkout"},
        clock_);
    if (!said) return std::unexpected(said.error().why);
    return std::move(*said);
  }
  void GoOn() {
    const auto said = Import();
    ASSERT_TRUE(said) << said.error();
    EXPECT_EQ(Problem(), "");
    ledger_ = OpenTestPostgres(url_, clock_);
  }
  std::string Problem() {
    PgReader reader(PgOptions{.url = url_});
    const auto streams = ListPgStreams(reader);
    for (const PgStream& stream : *streams) {
      const VerifyReport report = VerifyPgStream(reader, nullptr, stream);
      if (!report.ok) return report.problem;
    }
    return *CheckPgTables(reader);
  }
  Begun Begin(NewOperation call) {
    auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    if (begun && begun->commit) EXPECT_TRUE(Await(begun->commit->Durable(), executor_));
    return begun ? std::move(*begun) : Begun();
  }
  Event Record(Transition transition) {
    auto event = Await(ledger_->Record(std::move(transition), executor_), executor_);
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  Event Finish(NewOperation call, const std::string& body = "answer") {
    return Record(Success(Begin(std::move(call)).event, body));
  }
  bool HasSharedSecret() { return dynamic_cast<SharedLedgerView&>(*ledger_).HasSharedSecret(); }
  bool HasImported() { return dynamic_cast<SharedLedgerView&>(*ledger_).HasImported(); }
  static NewOperation Step(std::string_view key, std::string_view trace = "trace-1") {
    NewOperation call = Call(key, trace);
    call.event.is_step = true;
    return call;
  }

  const std::string url_ = FreshPostgresLedger();
  TempDirectory directory_{FastParent()};
  ManualClock clock_;
  PumpedExecutor executor_;
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(ImportTest, AnswersKeysAndUnknownOutcomesAreThere) {
  OpenVolume();
  const Event done = Finish(Call("done"), "the answer");
  const Event unknown = Record(Move(Begin(Call("unknown")).event, Phase::kUncertain));
  const Event running = Begin(Call("running")).event;
  NewOperation windowed = Call("windowed");
  windowed.dedupe_window = Millis(1'000);
  Finish(windowed, "first");
  clock_.Advance(Millis(2'000));
  Finish(windowed, "second");
  GoOn();
  const Begun repeat = Begin(Call("done"));
  EXPECT_EQ(repeat.kind, Kind::kReplay);
  EXPECT_EQ(repeat.event.operation, done.operation);
  EXPECT_EQ(repeat.event.answer.body, "the answer");
  EXPECT_EQ(Begin(Call("done", "trace-1", "other")).kind, Kind::kConflict);
  EXPECT_EQ(Begin(windowed).event.answer.body, "second");
  EXPECT_EQ(Begin(Call("unknown")).kind, Kind::kUnknown);
  EXPECT_EQ(Record(Move(unknown, Phase::kSucceeded, Cause::kProbePresent)).operation,
            unknown.operation);
  // Running until this process has taken the imported stream over, then unknown; never fresh.
  const Begun found = Begin(Call("running"));
  EXPECT_TRUE(found.kind == Kind::kRunning || found.kind == Kind::kUnknown);
  EXPECT_EQ(found.event.operation, running.operation);
}

TEST_F(ImportTest, WhatRetentionCarriedOnAndLeftIsThere) {
  OpenVolume();
  Finish(Call("old"));
  const Event unknown = Record(Move(Begin(Call("unknown")).event, Phase::kUncertain));
  Finish(Step("stepped", "trace-2"));
  ledger_->SetRule({.retention = Millis(1'000'000), .tombstones = Millis(90'000'000)});
  clock_.Advance(Millis(1'500'000));
  for (int i = 0; i < 40; ++i) {
    clock_.Advance(Millis(60'000));
    Finish(Call("young" + std::to_string(i), "trace-" + std::to_string(i + 10)));
  }
  ASSERT_GT(ledger_->Stats().first_id, unknown.operation);
  GoOn();
  EXPECT_EQ(Begin(Call("old")).kind, Kind::kExpired);
  const Begun found = Begin(Call("unknown"));
  EXPECT_EQ(found.kind, Kind::kUnknown);
  EXPECT_EQ(found.event.operation, unknown.operation);
  const Event settled = Record(Move(found.event, Phase::kSucceeded, Cause::kProbePresent));
  EXPECT_EQ(settled.operation, unknown.operation);
  EXPECT_EQ(Begin(Call("young39", "trace-49")).kind, Kind::kReplay);
  EXPECT_EQ(Problem(), "");
}

TEST_F(ImportTest, AFlowThatIsOverWithoutARowIsNotUndoneWithTheNextOfItsName) {
  OpenVolume();
  Finish(Step("first"));
  clock_.Advance(Millis(limits::kFlowIdle) + Millis(1));
  Finish(Step("second"));
  const auto volume = Await(ledger_->FindOpenFlow("agent-1", "trace-1", executor_), executor_);
  ASSERT_TRUE(volume && *volume);
  GoOn();
  const auto flow = Await(ledger_->FindOpenFlow("agent-1", "trace-1", executor_), executor_);
  ASSERT_TRUE(flow && *flow);
  EXPECT_EQ((*flow)->number, (*volume)->number);
  EXPECT_EQ((*flow)->steps.size(), (*volume)->steps.size());
}

// What a kill leaves: some of the rows, and no table that says anything of them.
TEST_F(ImportTest, OneThatWasEndedGoesOn) {
  OpenVolume();
  // More than goes at once.
  const std::string large(300'000, 'x');
  for (int i = 0; i < 20; ++i) Finish(Call("key" + std::to_string(i)), large);
  ledger_.reset();
  LmdbLedgerOptions options = Options();
  {
    auto connection = PgConnection::Open({.url = url_});
    const auto facts = ReadPgLedgerFacts(**connection);
    options.moves_to = ToHex(facts->identity);
    ImportStream stream(**connection);
    options.is_taken = [&](EventLog& log) {
      return stream.Begin({.identity = log.identity(),
                           .group = "shop/checkout",
                           .pod = "volume",
                           .agents = "shop/checkout/local",
                           .base = log.base()});
    };
    auto parts = OpenLmdbParts(options);
    ASSERT_TRUE(parts) << parts.error();
    const auto reader = parts->log->NewReader();
    ImportedTables tables(*reader, clock_, 1);
    std::string bytes;
    for (std::uint64_t seq = 1; reader->Read(seq, bytes); ++seq) {
      const auto row = ParseRow(bytes);
      const auto columns = tables.Take(*row);
      ASSERT_TRUE(columns && stream.Add(*columns, bytes, row->head.wall_ms));
    }
    EXPECT_GT(stream.head(), 1U);
    EXPECT_LT(stream.head(), parts->log->last_seq());
  }
  EXPECT_FALSE(OpenLmdbLedger(Options(), clock_));
  GoOn();
  EXPECT_EQ(Begin(Call("key7")).kind, Kind::kReplay);
  ledger_.reset();
  const auto again = Import();
  ASSERT_TRUE(again) << again.error();
  EXPECT_TRUE(again->starts_with("nothing to do: ")) << *again;
}

TEST_F(ImportTest, DoneAgainItTellsOfAsManyRows) {
  OpenVolume();
  for (const char* const key : {"one", "two", "three"}) Finish(Call(key));
  const auto first = Import();
  ASSERT_TRUE(first) << first.error();
  const std::string imported = "imported ";
  ASSERT_TRUE(first->starts_with(imported)) << *first;
  const std::string rows = first->substr(imported.size(), first->find(" rows ") - imported.size());
  EXPECT_GT(std::stoul(rows), 6U);
  const auto again = Import();
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(*again, "nothing to do: its " + rows + " rows are there already");
}

// It is the database that does not fit.
TEST_F(ImportTest, ARefusalSaysNothingAgainstTheVolume) {
  OpenVolume();
  Finish(Call("volume"), "volume");
  auto pod = OpenTestPostgres(url_, clock_);
  const auto at_work = Import();
  ASSERT_FALSE(at_work);
  EXPECT_TRUE(at_work.error().starts_with(directory_.data() + " was not imported: pods of "))
      << at_work.error();
  pod.reset();
  ASSERT_TRUE((*PgConnection::Open({.url = url_}))->Execute("UPDATE ledger SET install_id = 'x'"));
  const auto other = Import();
  ASSERT_FALSE(other);
  EXPECT_TRUE(other.error().starts_with(directory_.data() +
                                        " was not imported: the database belongs"
                                        " to another install.secret"))
      << other.error();
}

TEST_F(ImportTest, KeysThatTheDatabaseHasStayWhatTheyMeanThere) {
  OpenVolume();
  Finish(Call("both"), "volume");
  Finish(Call("volume"), "volume");
  ledger_ = OpenTestPostgres(url_, clock_);
  const Event there = Finish(Call("both"), "database");
  // As a group of an earlier version, whose keys were made as the volume's.
  ASSERT_TRUE((*PgConnection::Open({.url = url_}))->Execute("UPDATE secret SET is_shared = true"));
  const auto said = Import();
  ASSERT_TRUE(said) << said.error();
  EXPECT_NE(said->find("; 1 keys have an operation there already"), std::string::npos) << *said;
  EXPECT_EQ(Problem(), "");
  ledger_ = OpenTestPostgres(url_, clock_);
  EXPECT_EQ(Begin(Call("both")).event.operation, there.operation);
  EXPECT_EQ(Begin(Call("volume")).event.answer.body, "volume");
}

// They would be known as the volume's agents from then on, and their repeats as new calls.
TEST_F(ImportTest, IsRefusedWhereAgentsOfTheGroupHaveCalled) {
  OpenVolume();
  Finish(Call("volume"), "volume");
  ledger_ = OpenTestPostgres(url_, clock_);
  EXPECT_FALSE(HasImported());
  NewOperation believed = Call("theirs");
  believed.event.caller = "field:planner;shop/checkout/local";
  Finish(std::move(believed));
  ASSERT_TRUE((*PgConnection::Open({.url = url_}))->Execute("UPDATE secret SET is_shared = true"));
  const auto said = Import();
  ASSERT_FALSE(said);
  EXPECT_NE(said.error().find(": agents have called pods of the group shop/checkout (as "
                              "shop/checkout/local, or by another name); "),
            std::string::npos)
      << said.error();
  OpenVolume();  // it is nobody else's
  EXPECT_EQ(Begin(Call("volume")).kind, Kind::kReplay);
}

// By keys that were made with the group's own secret.
TEST_F(ImportTest, IsRefusedWhereAnybodyHasCalledByKeysOfTheGroup) {
  OpenVolume();
  Finish(Call("volume"), "volume");
  ledger_ = OpenTestPostgres(url_, clock_);
  EXPECT_FALSE(HasSharedSecret());
  Finish(Call("theirs"));
  const auto said = Import();
  ASSERT_FALSE(said);
  EXPECT_NE(said.error().find(": agents have called pods"), std::string::npos) << said.error();
}

TEST_F(ImportTest, IsRefusedWhilePodsOfTheGroupAreAtWork) {
  OpenVolume();
  Finish(Call("volume"), "volume");
  auto pod = OpenTestPostgres(url_, clock_);
  const auto refused = Import();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find(": pods of the group shop/checkout are at work (stream "),
            std::string::npos)
      << refused.error();
  pod.reset();
  GoOn();
  EXPECT_TRUE(HasImported());
  EXPECT_TRUE(HasSharedSecret());
  EXPECT_EQ(Begin(Call("volume")).kind, Kind::kReplay);
}

// One that is silent, as its way to the database is cut, is thought to be dead.
TEST_F(ImportTest, APodThatBeganBeforeItBeginsNothingAfterIt) {
  OpenVolume();
  Finish(Call("volume"), "volume");
  const auto pod = OpenTestPostgres(url_, clock_);
  const auto connection = PgConnection::Open({.url = url_});
  ASSERT_TRUE((*connection)->Execute("UPDATE stream SET at = now() - interval '4 minutes'"));
  GoOn();
  Started<Result<Begun>> begin(pod->Begin(Call("new"), executor_));
  EXPECT_TRUE(HappensSoon([&] {
    clock_.Advance(Millis(100));
    return begin.is_done() || executor_.has_jobs();
  }));
  EXPECT_FALSE(begin.Get(executor_));
  EXPECT_FALSE(dynamic_cast<SharedLedgerView&>(*pod).SharedCounts().is_up);
  EXPECT_EQ(Begin(Call("volume")).kind, Kind::kReplay);
}

// Until it is complete its keys are not known.
TEST_F(ImportTest, NobodyBeginsInTheMiddleOfIt) {
  const auto connection = PgConnection::Open({.url = url_});
  ImportStream stream(**connection);
  ASSERT_TRUE(stream.Begin({.group = "shop/checkout", .pod = "volume", .agents = "x"}));
  const auto opened = OpenPostgresLedger(
      {.store = {.connection = {.url = url_}, .group = "shop/checkout", .install_id = "install-1"},
       .keys = nullptr},
      clock_);
  ASSERT_FALSE(opened);
  EXPECT_TRUE(opened.error().why.starts_with("the ledger of a volume is imported for this group: "))
      << opened.error().why;
  EXPECT_TRUE(opened.error().may_pass);
}

}  // namespace
}  // namespace recourse::postgres_import_test
