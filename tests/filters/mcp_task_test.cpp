// What MCP servers say of their tasks, in the forms of both eras.
#include "filters/mcp/mcp_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "filters/mcp/mcp_request.h"
#include "filters/settle/late_answer.h"
#include "proxy/base/message_limits.h"

namespace recourse::mcp_task_test {
namespace {

using State = TaskReport::State;
using testing::HasSubstr;

const Headers kLegacy{{"MCP-Protocol-Version", "2025-11-25"}, {"Mcp-Session-Id", "s1"}};
const Headers kModern{{"MCP-Protocol-Version", "2026-07-28"}};
const std::string kLegacyTask =
    R"({"jsonrpc":"2.0","result":{"task":{"taskId":"t\"1","status":"working","ttl":60000,)"
    R"("createdAt":"x","lastUpdatedAt":"x","pollInterval":5000}}})";
const std::string kModernTask =
    R"({"jsonrpc":"2.0","result":{"resultType":"task","taskId":"t1","status":"working",)"
    R"("ttlMs":null,"pollIntervalMs":250}})";

Json Parsed(const std::string& text) { return *ParseJson(text); }

TEST(McpTaskTest, ATaskSaysHowOftenItMayBeAskedAbout) {
  EXPECT_EQ(PaceOfTask(Parsed(kLegacyTask)).poll, Millis(5'000));
  EXPECT_EQ(PaceOfTask(Parsed(kLegacyTask)).life, Millis(60'000));
  EXPECT_EQ(PaceOfTask(Parsed(kModernTask)).poll, Millis(250));
  EXPECT_FALSE(PaceOfTask(Parsed(kModernTask)).life);
  for (const char* odd : {"-1", "1e99", "\"5\"", "1.5"}) {
    const auto task =
        R"({"result":{"task":{"taskId":"t","pollInterval":)" + std::string(odd) + "}}}";
    EXPECT_EQ(PaceOfTask(Parsed(task)).poll, Millis(0)) << odd;
  }
  const auto slow = Parsed(R"({"result":{"task":{"taskId":"t","pollInterval":999999999}}})");
  EXPECT_EQ(PaceOfTask(slow).poll, limits::kTaskPollMax);
}

TEST(McpTaskTest, ItIsAskedAboutInTheErasOwnForm) {
  const auto legacy = AskAboutTask(Parsed(kLegacyTask), kLegacy);
  ASSERT_TRUE(legacy);
  EXPECT_EQ(legacy->body,
            R"({"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t\"1"}})");
  EXPECT_THAT(AskForTaskResult(*legacy).body, HasSubstr(R"("method":"tasks/result")"));
  const auto modern = AskAboutTask(Parsed(kModernTask), kModern);
  ASSERT_TRUE(modern);
  const auto read = ReadMcpRequest(modern->headers, modern->body);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->front().era, McpEra::kModern);
  EXPECT_EQ(read->front().task, "t1");
  // Servers refuse those who do not say that they know of tasks.
  EXPECT_NE(AtPointer(Parsed(modern->body),
                      "/params/_meta/io.modelcontextprotocol~1clientCapabilities/extensions/"
                      "io.modelcontextprotocol~1tasks"),
            nullptr);
}

TEST(McpTaskTest, WhatCannotBeAskedAboutIsLeft) {
  EXPECT_FALSE(AskAboutTask(Parsed(R"({"result":{"task":{"taskId":""}}})"), kLegacy));
  EXPECT_FALSE(AskAboutTask(Parsed(R"({"result":{"task":{"taskId":7}}})"), kLegacy));
  EXPECT_FALSE(AskAboutTask(Parsed(R"({"error":{"code":1}})"), kLegacy));
  const auto with_id = [](std::size_t size) {
    return Parsed(R"({"result":{"task":{"taskId":")" + std::string(size, 'x') + "\"}}}");
  };
  EXPECT_TRUE(AskAboutTask(with_id(limits::kTaskIdBytesMax), kLegacy));
  EXPECT_FALSE(AskAboutTask(with_id(limits::kTaskIdBytesMax + 1), kLegacy));
  const Headers large{{"Authorization", std::string(limits::kTaskRequestBytesMax, 'x')}};
  EXPECT_FALSE(AskAboutTask(Parsed(kLegacyTask), large));
}

TEST(McpTaskTest, ATaskIsTheSessionsAndTheCallersOwn) {
  const auto asked = AskAboutTask(Parsed(kLegacyTask), kLegacy);
  EXPECT_EQ(NameOfTask("b", "c", *asked), NameOfTask("b", "c", "s1", "t\"1"));
  EXPECT_NE(NameOfTask("b", "c", *asked), NameOfTask("b", "c", "s2", "t\"1"));
  EXPECT_NE(NameOfTask("b", "c", *asked), NameOfTask("b", "d", "s1", "t\"1"));
}

struct Report {
  std::string method, message;
  State state;
  std::string status;
  std::optional<MessageKind> final;
};

TEST(McpTaskTest, WhatAServerSaysIsReadAsFarAsItTells) {
  const auto status = [](const std::string& of, const std::string& more = "") {
    return R"({"result":{"taskId":"t","status":")" + of + "\"" + more + "}}";
  };
  const std::string done = R"(,"result":{"content":[]})";
  const std::vector<Report> reports{
      {"tasks/get", status("working"), State::kRunning, "working", {}},
      {"tasks/get", status("input_required"), State::kRunning, "input_required", {}},
      {"tasks/get", status("completed"), State::kEnded, "completed", {}},
      {"tasks/get", status("completed", done), State::kEnded, "completed", MessageKind::kResult},
      {"tasks/get", status("completed", R"(,"result":{"content":[],"isError":true})"),
       State::kEnded, "completed", MessageKind::kToolError},
      {"tasks/get",
       status("completed", R"(,"result":{"resultType":"task","taskId":"u"})"),
       State::kEnded,
       "completed",
       {}},
      {"tasks/get", status("failed", R"(,"error":{"code":-32603})"), State::kEnded, "failed",
       MessageKind::kError},
      {"tasks/get", status("failed", R"(,"error":{"code":-32602})"), State::kEnded, "failed",
       MessageKind::kRefused},
      {"tasks/get", status("cancelled", done), State::kEnded, "cancelled", {}},
      {"tasks/get", status("odd"), State::kUnclear, "odd", {}},
      {"tasks/get", R"({"result":[]})", State::kUnclear, "", {}},
      {"tasks/get", R"({"error":{"code":-32602}})", State::kGone, "", {}},
      {"tasks/get", R"({"error":{"code":-32601}})", State::kGone, "", {}},
      {"tasks/get", R"({"error":{"code":-32603}})", State::kUnclear, "", {}},
      {"tasks/result", R"({"result":{"content":[]}})", State::kEnded, "completed",
       MessageKind::kResult},
      {"tasks/result", R"({"result":{"content":[],"isError":true}})", State::kEnded, "failed",
       MessageKind::kToolError},
      {"tasks/result", R"({"error":{"code":-32602}})", State::kNoResult, "", {}},
      {"tasks/list", R"({"result":{"content":[]}})", State::kUnclear, "", {}}};
  for (const Report& each : reports) {
    const TaskReport report = ReadTaskReport(each.method, Parsed(each.message), each.message);
    EXPECT_EQ(report.state, each.state) << each.message;
    EXPECT_EQ(report.status, each.status) << each.message;
    ASSERT_EQ(report.final.has_value(), each.final.has_value()) << each.message;
    if (each.final) EXPECT_EQ(report.final->kind, *each.final) << each.message;
  }
}

TEST(McpTaskTest, WhatIsKeptOfBothIsGivenToEachAsHeTakesIt) {
  const std::string result = R"({"jsonrpc":"2.0","result":{"content":[]}})";
  const std::string both = WithTask(result, kModernTask);
  EXPECT_EQ(MessageFor(Wanted::kResult, both), result);
  EXPECT_EQ(MessageFor(Wanted::kTask, both), kModernTask);
  for (const Wanted wanted : {Wanted::kResult, Wanted::kTask}) {
    EXPECT_EQ(MessageFor(wanted, result), result);
    EXPECT_EQ(MessageFor(wanted, kLegacyTask), kLegacyTask);
    const std::string nested = R"({"jsonrpc":"2.0","result":{"content":[],"task":{"a":1}}})";
    EXPECT_EQ(MessageFor(wanted, nested), nested);
  }
}

TEST(McpTaskTest, PausesKeepToWhatTheServerAsksFor) {
  const auto pause = [](TaskPace pace, int asked) { return TaskPause(pace, asked, 0); };
  EXPECT_EQ(pause({}, 0), Millis(250));
  EXPECT_EQ(pause({}, 100), limits::kProbeBackoffMax / 2);
  EXPECT_EQ(pause({Millis(5'000), {}}, 0), Millis(5'000));
  // Asked before it is forgotten.
  EXPECT_EQ(pause({Millis(0), Millis(8'000)}, 100), Millis(2'000));
  EXPECT_EQ(pause({Millis(3'000), Millis(8'000)}, 100), Millis(3'000));
  EXPECT_EQ(pause({Millis(0), Millis(0)}, 100), limits::kSettleTick);
}

}  // namespace
}  // namespace recourse::mcp_task_test
