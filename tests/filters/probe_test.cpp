#include "filters/settle/probe.h"

#include <gtest/gtest.h>

#include "filters/call/key_placeholder.h"

namespace recourse::probe_test {
namespace {

SettleRule Rule(const char* happened) {
  SettleRule rule;
  rule.request = *ParseRequestLine("GET /orders?ref={key}");
  rule.happened = *ParseSelector(happened);
  rule.absent_after = Millis(5'000);
  return rule;
}

Result<Answer> Says(int status, std::string body) {
  Answer answer;
  answer.response.status = status;
  answer.response.body = std::move(body);
  return answer;
}

TEST(ProbeTest, TheSelectorDecides) {
  struct Row {
    const char* happened;
    int status;
    const char* body;
    ProbeVerdict verdict;
    const char* ref;
  };
  constexpr auto kPresent = ProbeVerdict::kPresent;
  constexpr auto kAbsent = ProbeVerdict::kAbsent;
  constexpr auto kNothing = ProbeVerdict::kNothing;
  const Row rows[] = {
      {"answer.body#/items/0/id", 200, R"({"items":[{"id":"o1"}]})", kPresent, "o1"},
      {"answer.body#/items/0/id", 200, R"({"items":[{"id":7}]})", kPresent, "7"},
      {"answer.body#/items/0/id", 200, R"({"items":[]})", kAbsent, ""},
      {"answer.body#/items/0/id", 200, R"({"items":null})", kNothing, ""},
      {"answer.body#/items/0/id", 404, "", kAbsent, ""},
      {"answer.body#/items/0/id", 200, R"({"items":[{}]})", kNothing, ""},
      {"answer.body#/0/id", 200, "[]", kAbsent, ""},
      {"answer.body#/id", 200, "{}", kNothing, ""},
      {"answer.body#/id", 200, "null", kNothing, ""},
      {"answer.body#/exists", 200, R"({"exists":true})", kPresent, ""},
      {"answer.body#/exists", 200, R"({"exists":false})", kNothing, ""},
      {"answer.body#/order", 200, R"({"order":{"id":1}})", kPresent, ""},
      {"answer.header.Location", 200, "", kNothing, ""},
      {"answer.header.Location", 404, "", kAbsent, ""},
      {"answer.body#/items/0/id", 404, R"({"error":"no such order"})", kAbsent, ""},
      {"answer.body#/items/0/id", 404, "<html>no route</html>", kNothing, ""},
      {"answer.body#/items/1/id", 200, R"({"items":[{"id":7}]})", kNothing, ""},
      // b34: slow, stale, broken and foreign answers tell nothing.
      {"answer.body#/items/0/id", 200, R"({"error":"try later"})", kNothing, ""},
      {"answer.body#/items/0/id", 200, R"({"items":"none"})", kNothing, ""},
      {"answer.body#/items/0/id", 200, "<html>", kNothing, ""},
      {"answer.body#/items/0/id", 200, "", kNothing, ""},
      {"answer.body#/count", 200, R"({"count":0})", kNothing, ""},
      {"answer.body#/items", 200, R"({"items":[]})", kAbsent, ""},
      {"answer.body#/items/0/id", 500, R"({"items":[]})", kNothing, ""},
      {"answer.body#/items/0/id", 302, R"({"items":[]})", kNothing, ""},
      {"answer.body#/items/0/id", 410, R"({"items":[]})", kNothing, ""},
  };
  for (const Row& row : rows) {
    const ProbeReading reading = JudgeProbe(Rule(row.happened), Says(row.status, row.body));
    EXPECT_EQ(reading.verdict, row.verdict) << row.happened << " " << row.status << " " << row.body;
    EXPECT_EQ(reading.external_ref, row.ref) << row.body;
  }
}

TEST(ProbeTest, WhatMayBeOldOrPartialNeverStatesAbsence) {
  const SettleRule rule = Rule("answer.body#/items/0/id");
  const auto verdict = [&](int status, Headers fields, std::string body = R"({"items":[]})") {
    Answer answer;
    answer.response = {status, "", std::move(fields), std::move(body)};
    return JudgeProbe(rule, answer).verdict;
  };
  const Header json{"Content-Type", "application/json"};
  EXPECT_EQ(verdict(200, {json}), ProbeVerdict::kAbsent);
  EXPECT_EQ(verdict(200, {json, {"Age", "0"}}), ProbeVerdict::kAbsent);
  EXPECT_EQ(verdict(200, {json, {"Link", "</a>; rel=\"prev\""}}), ProbeVerdict::kAbsent);
  for (const int status : {202, 203, 206}) {
    EXPECT_EQ(verdict(status, {json}), ProbeVerdict::kNothing) << status;
  }
  for (const Header& field :
       {Header{"Age", "1"}, Header{"Link", "</a>; title=x; rel=next"},
        Header{"link", "</a>; rel=\"prev\", </b>; REL=\"last next\""}, Header{"X-Next-Page", "2"},
        Header{"X-Cache", "HIT"}, Header{"Cache-Status", "edge; hit"},
        Header{"Warning", "110 - \"Response is Stale\""}}) {
    EXPECT_EQ(verdict(200, {json, field}), ProbeVerdict::kNothing) << field.second;
  }
  EXPECT_EQ(verdict(200, {{"Content-Type", "text/html"}}), ProbeVerdict::kNothing);
  for (const char* const more :
       {R"("next":"/2")", R"("nextPageToken":"x")", R"("has_more":true)", R"("hasNextPage":true)",
        R"("meta":{"cursor":"x"})", R"("@odata.nextLink":"x")", R"("LastEvaluatedKey":{"a":1})",
        R"("links":[{"rel":"next","href":"x"}])", R"("error":"busy")", R"("errors":[1])",
        R"("ok":false)", R"("success":false)", R"("timed_out":true)", R"("isLast":false)",
        R"("page":{"last":false})"}) {
    EXPECT_EQ(verdict(200, {json}, std::string(R"({"items":[],)") + more + "}"),
              ProbeVerdict::kNothing)
        << more;
  }
  for (const char* const whole : {R"("next":null,"has_more":false,"error":null)",
                                  R"("ok":true,"isLast":true,"partial":false,"timed_out":false)",
                                  R"("others":[{"last":false,"partial":true}])"}) {
    EXPECT_EQ(
        verdict(200, {json, {"X-Cache", "MISS"}}, std::string(R"({"items":[],)") + whole + "}"),
        ProbeVerdict::kAbsent);
  }
}

TEST(ProbeTest, AConditionOfThePolicyStatesAbsence) {
  SettleRule rule = Rule("answer.body#/order");
  rule.absent = {*ParseCondition("answer.body#/found == false"),
                 *ParseCondition("answer.status == 410")};
  EXPECT_EQ(JudgeProbe(rule, Says(200, R"({"found":false})")).verdict, ProbeVerdict::kAbsent);
  EXPECT_EQ(JudgeProbe(rule, Says(410, "<html>")).verdict, ProbeVerdict::kAbsent);
  EXPECT_EQ(JudgeProbe(rule, Says(200, R"({"found":true})")).verdict, ProbeVerdict::kNothing);
  EXPECT_EQ(JudgeProbe(rule, Says(200, R"({"found":false,"order":7})")).verdict,
            ProbeVerdict::kNothing)
      << "what says both says nothing";
  EXPECT_EQ(JudgeProbe(rule, Says(200, R"({"found":false,"next":"x"})")).verdict,
            ProbeVerdict::kNothing);
}

TEST(ProbeTest, NoAnswerTellsNothing) {
  const SettleRule rule = Rule("answer.body#/0/id");
  EXPECT_EQ(JudgeProbe(rule, std::unexpected(Error(ErrorCode::kBackendTimeout))).verdict,
            ProbeVerdict::kNothing);
  Answer cut;
  cut.response.status = 200;
  cut.response.body = "[]";
  cut.body_complete = false;
  EXPECT_EQ(JudgeProbe(rule, cut).verdict, ProbeVerdict::kNothing);
  cut.body_complete = true;
  cut.over_cap = true;
  EXPECT_EQ(JudgeProbe(rule, cut).verdict, ProbeVerdict::kNothing);
  cut.over_cap = false;
  cut.response.headers.emplace_back("Content-Encoding", "gzip");
  EXPECT_EQ(JudgeProbe(rule, cut).verdict, ProbeVerdict::kNothing);
}

TEST(ProbeTest, AbsenceCountsOnlyAfterTheTimeThePolicyGives) {
  SettleRule rule = Rule("answer.body#/0/id");
  ProbeHistory history;
  history.since = MonoTime(Millis(1'000));
  EXPECT_FALSE(AbsenceCounts(rule, history, history.since + Millis(4'999), 0));
  EXPECT_TRUE(AbsenceCounts(rule, history, history.since + Millis(5'000), 0));
  EXPECT_FALSE(AbsenceCounts(rule, history, history.since + Millis(5'000), 202))
      << "what was taken on may still be done";
  rule.absent_after.reset();
  EXPECT_FALSE(AbsenceCounts(rule, history, history.since + Millis(3'600'000), 0));
}

TEST(ProbeTest, PausesGrowToTheCapAndNeverPassTheTimeOfProof) {
  SettleRule rule = Rule("answer.body#/0/id");
  rule.absent_after.reset();
  ProbeHistory history;
  Millis last{0};
  for (history.probes = 1; history.probes < 40; ++history.probes) {
    const Millis pause = ProbePause(rule, history, MonoTime{}, 0);
    EXPECT_GE(pause, last);
    EXPECT_LE(ProbePause(rule, history, MonoTime{}, 0xffffffffU), limits::kProbeBackoffMax);
    last = pause;
  }
  EXPECT_EQ(last, limits::kProbeBackoffMax / 2);
  rule.absent_after = Millis(5'000);
  EXPECT_EQ(ProbePause(rule, history, MonoTime(Millis(4'000)), 0), Millis(1'000));
}

TEST(ProbeTest, ThePresentEffectGetsAnAnswerThatSaysWhereItComesFrom) {
  Event uncertain;
  uncertain.phase = Phase::kUncertain;
  uncertain.operation = 5;
  uncertain.attempt = 2;
  Tool tool;
  tool.undo.emplace();
  tool.undo->request = *ParseRequestLine("DELETE /orders/{external_ref}");
  const Transition transition = PresentTransition(uncertain, {.external_ref = "o\"1"}, tool);
  EXPECT_EQ(transition.from, Phase::kUncertain);
  EXPECT_EQ(transition.attempt, 2);
  EXPECT_EQ(transition.answer.status, 200);
  EXPECT_EQ(transition.answer.body,
            R"({"outcome":"executed","external_ref":"o\"1","settled_by":"probe"})");
  ASSERT_TRUE(transition.undo.has_value());
  EXPECT_EQ(transition.undo->target, "/orders/o%221");

  uncertain.answer_kept = true;
  uncertain.http_status = uncertain.answer.status = 409;
  EXPECT_EQ(PresentTransition(uncertain, {.external_ref = "o1"}, tool).answer.status, 200)
      << "a refusal is not the answer of an effect that exists";
  uncertain.http_status = uncertain.answer.status = 202;
  EXPECT_EQ(PresentTransition(uncertain, {.external_ref = "o1"}, tool).answer.status, 202);
}

TEST(ProbeTest, AnUndoMadeLaterReachesTheTenantOfItsCall) {
  Tool tool;
  tool.undo.emplace();
  tool.undo->request = *ParseRequestLine("DELETE /orders/{external_ref}");
  const RenderedRequest kept{"GET", "/orders", {{"X-Tenant", "b"}, {"X-Other", "1"}}, ""};
  const auto undo_of = [&](const Event& uncertain) {
    return PresentTransition(uncertain, {.external_ref = "o1"}, tool).undo.value();
  };
  Event uncertain;
  uncertain.phase = Phase::kUncertain;
  for (auto* const place : {&uncertain.settle, &uncertain.task, &uncertain.request}) {
    *place = kept;
    EXPECT_EQ(undo_of(uncertain).headers, (Headers{{"X-Tenant", "b"}}));
    place->reset();
  }
  uncertain.state.emplace().request = kept;
  EXPECT_EQ(undo_of(uncertain).headers, (Headers{{"X-Tenant", "b"}}));
}

TEST(ProbeTest, TheKeyIsPutInWhenTheOperationIsKnown) {
  CallValues values;
  values.key = KeyPlaceholder();
  RequestTemplate request = *ParseRequestLine("GET /orders/{key}?ref={key}");
  const auto rendered = Render(request, values);
  ASSERT_TRUE(rendered.has_value());
  EXPECT_EQ(WithKey(*rendered, "abc").target, "/orders/abc?ref=abc");
}

}  // namespace
}  // namespace recourse::probe_test
