// Which flow a write belongs to.
#include "filters/call/flow_name.h"

#include <gtest/gtest.h>

#include "policy/language/loader.h"

namespace recourse::flow_name_test {
namespace {

const std::string kPod = "pod-1";

std::unique_ptr<RequestContext> Call(const std::string& rules, Headers headers, bool is_traced) {
  auto context = std::make_unique<RequestContext>();
  context->policy = LoadPolicyText("p.yaml",
                                   "version: 1\nbackends: { b: { url: \"http://b\" } }\n"
                                   "flow_rules: { " +
                                       rules + " }\n")
                        .policy;
  EXPECT_NE(context->policy, nullptr) << rules;
  context->request.headers = std::move(headers);
  context->trace.trace_id = is_traced ? "trace" : "made";
  context->trace.from_client = is_traced;
  context->pod_flow = &kPod;
  return context;
}

// The flow's name; of one that is not shared "alone".
std::string Flow(const std::string& rules, Headers headers, bool is_traced = false) {
  const auto flow = FlowOf(*Call(rules, std::move(headers), is_traced), CallBody());
  if (!flow) return "refused";
  return flow->is_shared ? flow->text : "alone";
}

TEST(FlowNameTest, WithoutATraceThePolicySaysWhatJoinsWrites) {
  EXPECT_EQ(Flow("", {}), "alone");
  EXPECT_EQ(Flow("without_trace: none", {}), "alone");
  EXPECT_EQ(Flow("without_trace: pod", {}), "pod-1");
  EXPECT_EQ(Flow("without_trace: header:X-Run", {{"x-run", "r7"}}), "r7");
  EXPECT_EQ(Flow("without_trace: header:X-Run", {}), "alone");
  EXPECT_EQ(Flow("without_trace: header:X-Run", {{"X-Run", "a b"}}), "alone");
  EXPECT_EQ(Flow("without_trace: header:X-Run", {{"X-Run", std::string(129, 'x')}}), "alone");
  EXPECT_EQ(Flow("without_trace: session", {{"Mcp-Session-Id", "m"}}), "m");
  EXPECT_EQ(Flow("without_trace: session", {{"Mcp-Session-Id", "m"}, {"Recourse-Session", "s"}}),
            "s");
}

TEST(FlowNameTest, WhatTheAgentNamesAndATraceComeFirst) {
  EXPECT_EQ(Flow("without_trace: pod", {}, true), "trace");
  EXPECT_EQ(Flow("without_trace: pod", {{"Recourse-Flow", "mine"}}, true), "mine");
  EXPECT_EQ(Flow("without_trace: pod", {{"Recourse-Flow", "mine"}}), "mine");
  EXPECT_EQ(Flow("without_trace: pod", {{"Recourse-Flow", "a b"}}), "refused");
  EXPECT_EQ(Flow("without_trace: pod, parent: header:X-Up", {{"X-Up", "up"}}), "up");
  EXPECT_EQ(Flow("without_trace: pod, parent: header:X-Up", {{"X-Up", "up"}}, true), "up");
  EXPECT_EQ(Flow("without_trace: pod, parent: header:X-Up", {}), "pod-1");
}

TEST(FlowNameTest, APodHasOneNameForAsLongAsItLives) {
  const std::string name = PodFlowName("secret", "uid-1");
  EXPECT_EQ(PodFlowName("secret", "uid-1"), name);
  EXPECT_NE(PodFlowName("secret", "uid-2"), name);
  EXPECT_NE(PodFlowName("other", "uid-1"), name);
  EXPECT_EQ(PodFlowName("secret", "").size(), std::string("pod-0123456789abcdef").size());
}

}  // namespace
}  // namespace recourse::flow_name_test
