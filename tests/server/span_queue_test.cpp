#include "proxy/telemetry/span_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "tests/support/seeded_random.h"

namespace recourse::tracer_test {
namespace {

TEST(SpanQueue, SamplesThePartOfTheTracesThatItWasToldTo) {
  SeededRandom random(7);
  SpanIds ids(random);
  const auto ignore = [](std::size_t) {};
  const SpanQueue all(1, random, ignore), none(0, random, ignore), some(0.25, random, ignore);
  int sampled = 0;
  for (int i = 0; i < 4'000; ++i) {
    TraceIdText id;
    ids.Fill(id);
    EXPECT_TRUE(all.Samples(id.view()));
    EXPECT_FALSE(none.Samples(id.view()));
    EXPECT_EQ(some.Samples(id.view()), some.Samples(id.view()));
    if (some.Samples(id.view())) ++sampled;
  }
  EXPECT_GT(sampled, 850);
  EXPECT_LT(sampled, 1'150);
}

TEST(SpanQueue, IdsAreHexOfFullLengthAndDiffer) {
  SeededRandom random(7);
  SpanIds ids(random);
  std::set<std::string> seen;
  for (int i = 0; i < 1'000; ++i) {
    TraceIdText trace;
    SpanIdText span;
    ids.Fill(trace);
    ids.Fill(span);
    EXPECT_EQ(trace.view().size(), 32U);
    EXPECT_EQ(span.view().find_first_not_of("0123456789abcdef"), std::string_view::npos);
    EXPECT_TRUE(seen.emplace(trace.view()).second);
    EXPECT_TRUE(seen.emplace(span.view()).second);
  }
}

TEST(SpanQueue, WhatDoesNotFitIsDroppedAndCounted) {
  SeededRandom random(7);
  std::size_t dropped = 0;
  SpanQueue tracer(1, random, [&dropped](std::size_t spans) { dropped += spans; });
  for (int i = 0; i < 5'000; ++i) tracer.Add(Span());
  EXPECT_EQ(tracer.Take().size() + dropped, 5'000U);
  EXPECT_GT(dropped, 0U);
  tracer.Add(Span());
  EXPECT_EQ(tracer.waiting(), 1U);
}

Span AttemptIn(const std::string& trace, MonoTime ended) {
  Span attempt;
  attempt.of = Span::Of::kAttempt;
  attempt.effect = "write";
  attempt.trace.Set(trace);
  attempt.ended = ended;
  return attempt;
}

std::string NumberedTrace(int number) {
  std::string digits = std::to_string(number);
  return std::string(32 - digits.size(), '0') + digits;
}

TEST(SpanQueue, WhatWeSendStandsUnderTheAttemptWhileItsTraceIsRecent) {
  SeededRandom random(7);
  SpanQueue tracer(1, random, [](std::size_t) {});
  const auto policy = std::make_shared<const Policy>();
  const Backend backend;
  Event step;
  step.trace_id = NumberedTrace(1);
  step.operation = 7;
  step.attempt = 2;
  const MonoTime ended(std::chrono::hours(50));
  const auto begun_at = [&](MonoTime when) {
    OwnRequest undo(OwnRequest::Kind::kUndo, step, policy, backend, 1);
    undo.began = when;
    tracer.Begin(undo);
    EXPECT_EQ(undo.trace.trace_id == step.trace_id, !undo.parent.empty());
    return undo.parent;
  };
  EXPECT_EQ(begun_at(ended), "");
  Span read = AttemptIn(step.trace_id, ended);
  read.effect = "read";
  tracer.Add(std::move(read));
  EXPECT_EQ(begun_at(ended), "");
  tracer.Add(AttemptIn(step.trace_id, ended));
  EXPECT_EQ(begun_at(ended), AttemptSpanId(step.trace_id, 7, 2));
  EXPECT_NE(begun_at(ended + std::chrono::hours(1)), "");
  EXPECT_EQ(begun_at(ended + std::chrono::minutes(61)), "");
  for (int i = 2; i < 5'000; ++i) tracer.Add(AttemptIn(NumberedTrace(i), ended));
  EXPECT_EQ(begun_at(ended), "");
}

TEST(FlowLabel, IsAHashWhereTheNameMayBeASecret) {
  Policy policy;
  EXPECT_EQ(FlowLabel(policy, "cart-7", NumberedTrace(1)), "cart-7");
  policy.flow_rules.parent = {{ScopeRule::Kind::kHeader, "X-Run"}};
  EXPECT_EQ(FlowLabel(policy, "cart-7", NumberedTrace(1)), "cart-7");
  for (const ScopeRule& rule : {ScopeRule{ScopeRule::Kind::kSession, ""},
                                ScopeRule{ScopeRule::Kind::kHeader, "authorization"},
                                ScopeRule{ScopeRule::Kind::kHeader, "X-User-Token"}}) {
    policy.flow_rules.parent = {rule};
    EXPECT_TRUE(FlowLabel(policy, "s3cret", NumberedTrace(1)).starts_with("sha256:"));
    EXPECT_EQ(FlowLabel(policy, NumberedTrace(1), NumberedTrace(1)), NumberedTrace(1));
    EXPECT_EQ(FlowLabel(policy, "", NumberedTrace(1)), "");
  }
}

TEST(AttemptSpanId, FollowsFromWhatTheLedgerHolds) {
  const std::string trace = "0af7651916cd43dd8448eb211c80319c";
  EXPECT_EQ(AttemptSpanId(trace, 7, 1), AttemptSpanId(trace, 7, 1));
  EXPECT_EQ(AttemptSpanId(trace, 7, 1).size(), 16U);
  const std::set<std::string> ids{AttemptSpanId(trace, 7, 1), AttemptSpanId(trace, 7, 2),
                                  AttemptSpanId(trace, 71, 1), AttemptSpanId(trace, 17, 1)};
  EXPECT_EQ(ids.size(), 4U);
}

}  // namespace
}  // namespace recourse::tracer_test
