#include "proxy/report/report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/model/path_shape.h"
#include "proxy/base/limits.h"
#include "proxy/report/build_report.h"
#include "proxy/report/report_text.h"
#include "tests/filters/calls.h"

namespace recourse::report_test {
namespace {

using Foreseen = ObserveVerdict;

constexpr const char* kPolicy = R"(version: 1
mode: observe
backends: { shop: { url: "http://shop.test" } }
tools:
  pay:  { match: POST shop /pay, effect: write, undo: { request: "POST /refund" } }
  mail: { match: POST shop /mail, effect: write, undo: none, approval: { by: [ a ] } }
  note: { match: POST shop /note, effect: write, undo: none, reason: notes stay }
)";

// One row of a ledger; what a test leaves out does not matter to it.
struct Row {
  std::uint64_t operation;
  std::int64_t at_ms;
  Phase phase = Phase::kDispatching;
  Foreseen verdict = Foreseen::kFresh;
  std::uint64_t related = 0;
  std::string tool = "pay";
  std::string trace = "t1";
  Cause cause = Cause::kFirstCall;
  std::string detail{};
  std::string intent{};
};

class ReportTest : public testing::Test {
 protected:
  Report Of(const std::vector<Row>& rows, ReportPeriod period = {0, 1'000'000}) {
    ReportBuilder builder(*policy_, period, [this](std::uint64_t operation) {
      asked_.push_back(operation);
      return first_;
    });
    std::uint64_t id = 0;
    for (const Row& row : rows) {
      Event event;
      event.id = ++id;
      event.operation = row.operation;
      event.wall_ms = row.at_ms;
      event.phase = row.phase;
      event.verdict = row.verdict;
      event.related = row.related;
      event.tool = row.tool;
      event.backend = "shop";
      event.method = "POST";
      event.path = "/" + row.tool + "/17";
      event.trace_id = row.trace;
      event.cause = row.cause;
      event.detail = row.detail;
      event.attempt = 1;
      if (!row.intent.empty()) event.intent = Sha256(row.intent);
      builder.Add(event);
    }
    return builder.Finish();
  }

  std::shared_ptr<const Policy> policy_ = PolicyOf(kPolicy);
  std::optional<Event> first_;
  std::vector<std::uint64_t> asked_;
};

TEST_F(ReportTest, WhatAHumanWouldHaveBeenAskedAboutIsListedByToolAndVerdict) {
  const Report report =
      Of({{.operation = 1, .at_ms = 1, .verdict = Foreseen::kWouldAsk},
          {.operation = 2, .at_ms = 2, .verdict = Foreseen::kWouldHold, .tool = "mail"},
          {.operation = 3, .at_ms = 3, .verdict = Foreseen::kWouldHold, .tool = "mail"},
          {.operation = 3,
           .at_ms = 4,
           .phase = Phase::kSucceeded,
           .verdict = Foreseen::kWouldHold,
           .tool = "mail"},
          {.operation = 4, .at_ms = 5, .tool = "mail"}});
  ASSERT_EQ(report.held.size(), 2U);
  EXPECT_EQ(report.held[0].tool + " " + report.held[0].verdict, "mail would_hold");
  EXPECT_EQ(report.held[0].calls, 2U);
  EXPECT_EQ(report.held[0].example, 2U);
  EXPECT_EQ(report.held[1].tool + " " + report.held[1].verdict, "pay would_ask");
  EXPECT_EQ(report.held[1].calls, 1U);
}

TEST_F(ReportTest, BothOutcomesDecideWhetherARepeatTookEffectTwice) {
  struct Case {
    Phase first, repeat;
    std::uint64_t twice, perhaps;
  };
  for (const Case& c : std::vector<Case>{{Phase::kSucceeded, Phase::kSucceeded, 1, 0},
                                         {Phase::kAnswerLost, Phase::kSucceeded, 1, 0},
                                         {Phase::kSucceeded, Phase::kUncertain, 0, 1},
                                         {Phase::kUncertain, Phase::kUncertain, 0, 1},
                                         {Phase::kSucceeded, Phase::kRejected, 0, 0},
                                         {Phase::kRejected, Phase::kRejected, 0, 0},
                                         {Phase::kNotSent, Phase::kSucceeded, 0, 0}}) {
    const Report report = Of({{1, 0},
                              {1, 10, c.first},
                              {3, 20, kDispatching, Foreseen::kWouldReplay, 1},
                              {3, 30, c.repeat, Foreseen::kWouldReplay, 1}});
    EXPECT_EQ(report.double_effects, c.twice) << NameOf(c.first) << " " << NameOf(c.repeat);
    EXPECT_EQ(report.possible_effects, c.perhaps) << NameOf(c.first) << " " << NameOf(c.repeat);
    ASSERT_EQ(report.duplicates.size(), 1U);
    EXPECT_EQ(report.duplicates[0].double_effects, c.twice);
  }
}

TEST_F(ReportTest, TheTimeBetweenIsThatFromTheFirstCall) {
  std::vector<Row> rows{{1, 1'000}};
  for (const std::int64_t gap : {9'000, 1'000, 4'000}) {
    rows.push_back(
        {static_cast<std::uint64_t>(gap), 1'000 + gap, kDispatching, Foreseen::kWouldJoin, 1});
  }
  const DuplicateLine line = Of(rows).duplicates.at(0);
  EXPECT_EQ(line.min_ms, 1'000);
  EXPECT_EQ(line.median_ms, 4'000);
  EXPECT_EQ(line.max_ms, 9'000);
  EXPECT_EQ(line.verdicts, (std::map<std::string, std::uint64_t>{{"would_join", 3}}));
}

TEST_F(ReportTest, AFirstCallBeforeThePeriodIsLookedUp) {
  first_.emplace();
  first_->wall_ms = 4'000;
  first_->trace_id = "t0";
  const Report report =
      Of({{1, 4'000}, {7, 6'000, kDispatching, Foreseen::kWouldReplay, 1}}, {5'000, 9'000});
  EXPECT_EQ(asked_, std::vector<std::uint64_t>{1});
  EXPECT_EQ(report.calls, 1U);
  EXPECT_EQ(report.duplicates.at(0).max_ms, 2'000);
  EXPECT_EQ(report.duplicates.at(0).examples.at(0).first_trace, "t0");
  ASSERT_EQ(report.keys.size(), 1U);
  EXPECT_EQ(report.keys[0].trouble, "retried-under-another-trace");
}

TEST_F(ReportTest, ARefusalOrAConflictIsNoDuplicate) {
  const Report report = Of({{1, 0},
                            {2, 1, kDispatching, Foreseen::kWouldConflict, 1},
                            {3, 2, kDispatching, Foreseen::kWouldRefuse, 0, "pay", "t1",
                             Cause::kFirstCall, "key-required: the tool needs more"},
                            {4, 3, kDispatching, Foreseen::kNotJudged},
                            {5, 4, kDispatching, Foreseen::kWouldHold, 0, "mail"}});
  EXPECT_EQ(report.repeats, 0U);
  EXPECT_TRUE(report.duplicates.empty());
  std::vector<std::string> troubles;
  for (const KeyLine& line : report.keys) troubles.push_back(line.trouble);
  EXPECT_EQ(troubles, (std::vector<std::string>{"key-required", "key-reused", "not-judged"}));
  ASSERT_EQ(report.refused.size(), 1U);
  EXPECT_EQ(report.refused[0].reason, "key-required: the tool needs more");
  EXPECT_EQ(report.refused[0].effect + " " + std::to_string(report.refused[0].calls), "write 1");
}

TEST_F(ReportTest, UnknownOutcomesAreOpenUntilTheyAreSettled) {
  const auto unknown = [](std::uint64_t operation, Cause cause) {
    return Row{operation, 1, Phase::kUncertain, Foreseen::kNone, 0, "pay", "t1", cause};
  };
  const Report report = Of({{1, 0},
                            unknown(1, Cause::kTimeout),
                            {2, 0},
                            unknown(2, Cause::kTimeout),
                            {2, 3, Phase::kSucceeded},
                            {3, 0},
                            unknown(3, Cause::kCrash)});
  ASSERT_EQ(report.unknown.size(), 2U);
  EXPECT_EQ(report.unknown[0].cause, "timeout");
  EXPECT_EQ(report.unknown[0].calls, 2U);
  EXPECT_EQ(report.unknown[0].open, 1U);
  EXPECT_EQ(report.unknown[1].cause, "crash");
  EXPECT_EQ(report.outcomes,
            (std::map<std::string, std::uint64_t>{{"SUCCEEDED", 1}, {"UNCERTAIN", 2}}));
}

TEST_F(ReportTest, WritesWithoutUndoSayWhyUnexplainedOnesFirst) {
  const Report report = Of({{1, 0, kDispatching, Foreseen::kFresh, 0, "note"},
                            {2, 0, kDispatching, Foreseen::kFresh, 0, "note"},
                            {3, 0, kDispatching, Foreseen::kFresh, 0, "mail"},
                            {4, 0, kDispatching, Foreseen::kFresh, 0, "pay"},
                            {5, 0, kDispatching, Foreseen::kFresh, 0, "unlisted.shop"},
                            {6, 0, kDispatching, Foreseen::kFresh, 0, "of-old"}});
  std::vector<std::string> tools;
  for (const WithoutUndoLine& line : report.without_undo) tools.push_back(line.tool);
  EXPECT_EQ(tools, (std::vector<std::string>{"mail", "of-old", "unlisted.shop", "note"}));
  ASSERT_EQ(report.unlisted.size(), 1U);
  EXPECT_EQ(report.unlisted[0].path, "/unlisted.shop/{id}");
}

TEST_F(ReportTest, TheSameIntentAsANewCallIsTroubleWithKeys) {
  const auto call = [](std::uint64_t operation, std::string trace, std::int64_t at_ms = 0) {
    return Row{operation,         at_ms, kDispatching, Foreseen::kNone, 0, "pay", std::move(trace),
               Cause::kFirstCall, "",    "intent"};
  };
  const Report report = Of({call(1, "t1"), call(2, "t2"), call(3, "t2", 700'000)});
  ASSERT_EQ(report.keys.size(), 2U);
  EXPECT_EQ(report.keys[0].trouble, "again-after-its-window");
  EXPECT_EQ(report.keys[1].trouble, "again-under-another-trace");
}

// Another window mends neither.
TEST_F(ReportTest, WhatIsNewWithinItsWindowIsNotToldToWidenIt) {
  const auto call = [](std::uint64_t operation, std::string trace) {
    return Row{operation,         5,  kDispatching, Foreseen::kNone, 0, "pay", std::move(trace),
               Cause::kFirstCall, "", "intent"};
  };
  const Report report = Of({call(1, ""), call(2, ""), call(3, "")});
  ASSERT_EQ(report.keys.size(), 1U);
  EXPECT_EQ(report.keys[0].trouble, "again-without-a-trace");
  EXPECT_EQ(report.keys[0].calls, 2U);
  EXPECT_TRUE(Of({call(1, "t1"), call(2, "t1")}).keys.empty()) << "the first one was refused";
}

TEST_F(ReportTest, MemoryIsBounded) {
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < limits::kReportLinesMax + 10; ++i) {
    rows.push_back({i + 1, 0, kDispatching, Foreseen::kWouldReplay, 1, "tool" + std::to_string(i)});
  }
  const Report report = Of(rows);
  EXPECT_EQ(report.duplicates.size(), limits::kReportLinesMax);
  EXPECT_EQ(report.repeats, rows.size());
  EXPECT_TRUE(report.is_cut);
}

TEST_F(ReportTest, TextAndJsonSayTheSame) {
  const Report report = Of({{1, 0},
                            {1, 10, Phase::kSucceeded},
                            {3, 1'250, kDispatching, Foreseen::kWouldReplay, 1},
                            {3, 1'300, Phase::kSucceeded, Foreseen::kWouldReplay, 1}});
  const std::string text =
      ReportJson(report, {.mode = "observe",
                          .since = "A",
                          .until = "B",
                          .started = "C",
                          .not_recorded = 2,
                          .replays = 0,
                          .unlisted_other = 0,
                          .unlisted_reads = {{"shop", "read", "GET", "/x", 4}},
                          .refused = {{"shop", "read", "GET", "/y", "denied: no \"tool\"", 3}},
                          .refused_other = 0,
                          .differences = {{"orders.create", "header.x-user-id", 2}},
                          .differences_other = 0});
  const auto json = ParseJson(text);
  ASSERT_TRUE(json) << text;
  EXPECT_NE(text.find(R"("seconds":{"min":1.250,"median":1.250,"max":1.250})"), std::string::npos);
  EXPECT_NE(text.find(R"("outcomes":{"SUCCEEDED":2})"), std::string::npos);
  const std::string table = ReportText(*json);
  for (const char* part :
       {"mode observe, A to B", "2 writes were sent; outcomes: SUCCEEDED 2",
        "1 repeat, 1 of them took effect twice, 0 perhaps", "1.2 s / 1.2 s / 1.2 s",
        "would_replay 1", "3 after 1, trace t1", "shop     read    GET     /x    4",
        "shop     read    GET     /y    3      denied: no \"tool\"",
        "orders.create  header.x-user-id  2",
        "2 writes since the start of the process are missing"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
  EXPECT_EQ(table.find("Unknown outcomes"), std::string::npos);  // an empty list is left out
}

TEST(SpanTextTest, TimesAreReadable) {
  for (const auto& [ms, text] :
       std::vector<std::pair<std::int64_t, std::string>>{{-5, "0 ms"},
                                                         {0, "0 ms"},
                                                         {999, "999 ms"},
                                                         {1'000, "1.0 s"},
                                                         {59'999, "59.9 s"},
                                                         {60'000, "1 min 0 s"},
                                                         {3'599'000, "59 min 59 s"},
                                                         {3'600'000, "1 h 0 min"},
                                                         {86'399'000, "23 h 59 min"},
                                                         {86'400'000, "1 d 0 h"},
                                                         {200'000'000, "2 d 7 h"}}) {
    EXPECT_EQ(SpanText(ms), text);
  }
}

TEST(PathShapeTest, IdsAreLeftOutAndWordsStay) {
  const std::string word(33, 'w');
  for (const auto& [path, shape] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"/", "/"},
           {"/orders", "/orders"},
           {"/v1/orders/17/", "/v1/orders/{id}/"},
           {"/s3/oauth2/cart-1", "/s3/oauth2/{id}"},
           {"/a/123e4567-e89b-12d3-a456-426614174000/b", "/a/{id}/b"},
           {"/x/" + word, "/x/{id}"},
           {"//a", "//a"}}) {
    EXPECT_EQ(PathShape(path, 100), shape);
  }
  EXPECT_LE(PathShape("/abc/def/ghi", 7).size(), 7U);
  EXPECT_EQ(ShapeHash("/a/1/b"), ShapeHash("/a/22/b"));
  EXPECT_NE(ShapeHash("/a/1/b"), ShapeHash("/a/1/c"));
}

TEST(BuildReportTest, OnlyTheRowsOfThePeriodAreTold) {
  World world(kShopPolicy);
  world.Call(Order());
  world.loop.Skip(Millis(3'600'000));
  const std::int64_t later = ToUnixMillis(world.loop.clock().WallNow());
  CallSpec other = Order();
  other.trace = kTraceB;
  other.body = R"({"item":"chair","amount":2})";
  world.Call(other);
  const auto both = BuildReport(world.ledger, *world.policy, {0, later + 100'000});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->calls, 2U);
  const auto second = BuildReport(world.ledger, *world.policy, {later, later + 100'000});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->calls, 1U);
  const auto none = BuildReport(world.ledger, *world.policy, {later + 100'000, later + 200'000});
  ASSERT_TRUE(none);
  EXPECT_EQ(none->events, 0U);
}

}  // namespace
}  // namespace recourse::report_test
