#include <gtest/gtest.h>

#include "filters/mcp/answer_tap.h"
#include "filters/mcp/missing_tools.h"
#include "filters/mcp/tool_catalog.h"
#include "policy/effects/declared_digest.h"
#include "proxy/base/message_limits.h"
#include "tests/policy/policy_builder.h"

namespace recourse::mcp_relay_tap_test {
namespace {

constexpr std::string_view kEvents = "text/event-stream; charset=utf-8";
constexpr std::string_view kJson = "application/json";

McpRequest Read(std::string id, std::string method = "tools/list") {
  McpRequest request;
  request.kind = McpRequest::Kind::kRead;
  request.id = std::move(id);
  request.method = std::move(method);
  return request;
}

std::string Event(std::string_view data) { return "data: " + std::string(data) + "\n\n"; }

const std::string kProgress =
    Event(R"({"jsonrpc":"2.0","method":"notifications/progress","params":{}})");
const std::string kAnswer = R"({"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}})";

TEST(AnswerTap, AStreamThatEndsWithItsAnswerIsLeftAlone) {
  AnswerTap tap({Read("1")});
  tap.Head(200, kEvents, false);
  tap.Take(kProgress);
  EXPECT_NE(tap.Ending(), "");
  tap.Take(Event(kAnswer));
  EXPECT_EQ(tap.Ending(), "");
}

TEST(AnswerTap, AStreamWithoutAnswerGetsOneOfOurs) {
  AnswerTap tap({Read("1", "resources/read")});
  tap.Head(200, kEvents, false);
  tap.Take(kProgress);
  const std::string ending = tap.Ending();
  EXPECT_TRUE(ending.starts_with("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":"))
      << ending;
  EXPECT_TRUE(ending.ends_with("\n\n"));
}

TEST(AnswerTap, AnEventThatWasCutIsEndedAsOneThatNobodyListensFor) {
  for (const auto& [came, end] : std::vector<std::pair<std::string, std::string>>{
           {Event(kAnswer).substr(0, 20), "\nevent: cut\n\nevent: message\n"},
           {"data: " + kAnswer + "\n", "event: cut\n\nevent: message\n"},
           {": \n", "event: cut\n\nevent: message\n"}}) {
    AnswerTap tap({Read("1")});
    tap.Head(200, kEvents, false);
    tap.Take(came);
    EXPECT_TRUE(tap.Ending().starts_with(end)) << tap.Ending();
    SseReader reader(1'000'000);
    reader.Feed(came + tap.Ending());
    const auto cut = reader.Next();
    ASSERT_TRUE(cut);
    EXPECT_TRUE(cut->raw.ends_with("event: cut\n\n"));
    EXPECT_TRUE(reader.Next()->data.starts_with("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\""));
  }
}

TEST(AnswerTap, WhoCanComeBackForTheRestIsLeftTo) {
  AnswerTap tap({Read("1")});
  tap.Head(200, kEvents, false);
  tap.Take("id: 7\ndata:\n\n");
  EXPECT_EQ(tap.Ending(), "");
  McpRequest modern = Read("1");
  modern.era = McpEra::kModern;
  AnswerTap of_modern({modern});
  of_modern.Head(200, kEvents, false);
  of_modern.Take("id: 7\ndata:\n\n");
  EXPECT_NE(of_modern.Ending(), "");
}

TEST(AnswerTap, EveryRequestOfABatchIsAnswered) {
  AnswerTap tap({Read("1"), Read("\"b\"", "ping")});
  tap.Head(200, kEvents, false);
  tap.Take(Event(kAnswer));
  EXPECT_NE(tap.Ending().find("\"id\":\"b\""), std::string::npos);
  EXPECT_EQ(tap.Ending().find("\"id\":1"), std::string::npos);
}

TEST(AnswerTap, WhatIsNoStreamIsNotAddedTo) {
  for (const auto& [status, type, encoded] : std::vector<std::tuple<int, std::string_view, bool>>{
           {200, kJson, false}, {200, kEvents, true}, {404, kEvents, false}}) {
    AnswerTap tap({Read("1")});
    tap.Head(status, type, encoded);
    tap.Take("x");
    EXPECT_EQ(tap.Ending(), "");
    EXPECT_TRUE(tap.TakeLists().empty());
  }
}

TEST(AnswerTap, ListsAreFoundInStreamsAndInJson) {
  for (const bool is_stream : {true, false}) {
    AnswerTap tap({Read("1")});
    tap.Head(200, is_stream ? kEvents : kJson, false);
    const std::string text = is_stream ? kProgress + Event(kAnswer) : kAnswer;
    for (const char& byte : text) {
      tap.Take({&byte, 1});
      // What is looked at while it comes is still found in the end.
      if (!is_stream) EXPECT_TRUE(tap.TakeLists().empty());
    }
    tap.Finish();
    const auto lists = tap.TakeLists();
    ASSERT_EQ(lists.size(), 1U) << is_stream;
    EXPECT_NE(AtPointer(lists[0], "/result/tools/0/name"), nullptr);
    EXPECT_TRUE(tap.TakeLists().empty());
  }
}

TEST(AnswerTap, NothingElseIsTakenForAList) {
  AnswerTap tap({Read("1", "tools/call")});
  tap.Head(200, kJson, false);
  tap.Take(kAnswer);
  tap.Finish();
  EXPECT_TRUE(tap.TakeLists().empty());
}

Json List(std::string_view tools) {
  return *ParseJson("{\"result\":{\"tools\":" + std::string(tools) + "}}");
}

TEST(ToolCatalog, KnowsWhatWasListedToThatCaller) {
  ToolCatalog book;
  EXPECT_TRUE(book.Learn("b", "c", List(R"([
      {"name":"r","annotations":{"readOnlyHint":true},"outputSchema":{"type":"object"}},
      {"name":"w","annotations":{"readOnlyHint":"true"}}])"))
                  .empty());
  EXPECT_TRUE(book.Find("b", "c", "r")->is_read_only);
  EXPECT_TRUE(book.Find("b", "c", "r")->has_output_schema);
  EXPECT_FALSE(book.Find("b", "c", "w")->is_read_only);
  EXPECT_FALSE(book.Find("b", "c", "w")->has_output_schema);
  EXPECT_FALSE(book.Find("b", "c", "x"));
  EXPECT_FALSE(book.Find("b", "d", "r"));
  EXPECT_FALSE(book.Find("c", "c", "r"));
}

TEST(ToolCatalog, ANameThatNobodyMayCallTakesNoRoom) {
  ToolCatalog book;
  const std::string name(limits::kCalledNameBytesMax + 1, 'n');
  (void)book.Learn("b", "c", List(R"([{"name":")" + name + R"("},{"name":"p"}])"));
  EXPECT_FALSE(book.Find("b", "c", name));
  EXPECT_TRUE(book.Find("b", "c", "p"));
}

TEST(ToolCatalog, PagesAddUp) {
  ToolCatalog book;
  (void)book.Learn("b", "c", List(R"([{"name":"p"}])"));
  (void)book.Learn("b", "c", List(R"([{"name":"q"}])"));
  EXPECT_TRUE(book.Find("b", "c", "p") && book.Find("b", "c", "q"));
}

TEST(ToolCatalog, AChangedDefinitionIsToldAndNeverForgotten) {
  ToolCatalog book;
  const Json first = List(R"([{"name":"r","description":"a","_meta":{"n":1}}])");
  const Json same = List(R"([{"_meta":{"n":2},"description":"a","name":"r"}])");
  const Json other = List(R"([{"name":"r","description":"b"}])");
  (void)book.Learn("b", "c", first);
  EXPECT_TRUE(book.Learn("b", "c", same).empty());
  EXPECT_FALSE(book.Find("b", "c", "r")->has_changed);
  EXPECT_EQ(book.Learn("b", "c", other), std::vector<std::string>{"r"});
  EXPECT_TRUE(book.Learn("b", "c", other).empty());
  EXPECT_TRUE(book.Find("b", "c", "r")->has_changed);
  EXPECT_EQ(book.Learn("b", "c", first).size(), 1U);
  EXPECT_TRUE(book.Find("b", "c", "r")->has_changed);
}

TEST(ToolCatalog, AToolIsMissingOnceAWholeListIsKnownAndNobodyWasGivenIt) {
  const auto policy = LoadGood(R"(
backends:
  b: { url: "http://b/mcp", protocol: mcp }
  other: { url: "http://other/mcp", protocol: mcp }
tools:
  globs: { match: "tools/call b read_*", effect: read }
  r: { match: [ tools/call b reed, tools/call b list ], effect: read }
  w: { match: tools/call b make, effect: write, undo: { call: unmake, arguments: {} } }
  o: { match: tools/call other make, effect: read }
)");
  ToolCatalog book;
  const std::string b = ServerKeyOf(policy->backends[0]);
  const auto missing = [&] {
    std::string names;
    for (const McpToolName& one : MissingTools(*policy, book)) {
      names += one.backend + '.' + one.name + ' ';
    }
    return names;
  };
  (void)book.Learn(b, "c", *ParseJson(R"({"result":{"tools":[],"nextCursor":"2"}})"));
  EXPECT_EQ(missing(), "");
  (void)book.Learn(b, "c", List(R"([{"name":"make"},{"name":"list"}])"));
  EXPECT_EQ(missing(), "b.reed b.unmake ");
  (void)book.Learn(b, "d", List(R"([{"name":"reed"}])"));
  EXPECT_EQ(missing(), "b.unmake ");
  EXPECT_TRUE(book.IsNews(ToolCatalog::News::kMissing, "b", "unmake"));
  EXPECT_FALSE(book.IsNews(ToolCatalog::News::kMissing, "b", "unmake"));
}

TEST(ToolCatalog, OtherEffectsThanThePolicyTookOverAreTold) {
  const auto declares = [](const std::string& effect) {
    return List(R"([{"name":"make","_meta":{"dev.recourse/effects":{"effect":")" + effect +
                R"("}}}])");
  };
  const Json listed = declares("write");
  const std::string digest = DeclaredDigest(*AtPointer(listed, "/result/tools/0"));
  const auto policy = LoadGood(
      "backends: { b: { url: \"http://b/mcp\", protocol: mcp } }\n"
      "tools:\n  w: { match: tools/call b make, effect: write, undo: none, "
      "reason: r, declared: \"" +
      digest + "\" }\n");
  ToolCatalog book;
  const std::string b = ServerKeyOf(policy->backends[0]);
  EXPECT_TRUE(RedeclaredTools(*policy, book).empty());
  EXPECT_TRUE(book.Learn(b, "c", listed).empty());
  EXPECT_TRUE(RedeclaredTools(*policy, book).empty());
  // The definition counts as another one too, so that its annotations are believed no more.
  EXPECT_EQ(book.Learn(b, "c", declares("read")), std::vector<std::string>{"make"});
  ASSERT_EQ(RedeclaredTools(*policy, book).size(), 1U);
  EXPECT_EQ(RedeclaredTools(*policy, book)[0].name, "make");
  (void)book.Learn(b, "c", listed);
  EXPECT_TRUE(RedeclaredTools(*policy, book).empty());
  (void)book.Learn(b, "d", List(R"([{"name":"make"}])"));
  EXPECT_EQ(RedeclaredTools(*policy, book).size(), 1U);
}

TEST(ToolCatalog, IsBounded) {
  ToolCatalog book;
  std::string many = "[";
  for (int i = 0; i < 1'025; ++i) {
    many += (i == 0 ? "" : ",") + std::string("{\"name\":\"t") + std::to_string(i) + "\"}";
  }
  (void)book.Learn("b", "c", List(many + "]"));
  EXPECT_TRUE(book.Find("b", "c", "t1023"));
  EXPECT_FALSE(book.Find("b", "c", "t1024"));
  for (int i = 0; i < 256; ++i) {
    (void)book.Learn("b", std::to_string(i), List(R"([{"name":"t"}])"));
  }
  EXPECT_TRUE(book.Find("b", "254", "t"));
  EXPECT_FALSE(book.Find("b", "255", "t"));
}

}  // namespace
}  // namespace recourse::mcp_relay_tap_test
