// What is kept of a thing that a call changes, out of requests and answers.
#include "filters/call/snapshots.h"

#include <gtest/gtest.h>

#include "policy/language/loader.h"
#include "tests/filters/saga_shop.h"

namespace recourse::snapshots_test {
namespace {

BeforeRule RuleOf(std::vector<std::string> keep) {
  BeforeRule rule;
  for (const std::string& place : keep) rule.keep.push_back(*ParseSelector("body#" + place));
  rule.version = *ParseSelector("header.ETag");
  return rule;
}

Json Parsed(const std::string& text) { return *ParseJson(text); }

TEST(SnapshotsTest, WhatACallLeavesFollowsFromItsBody) {
  Tool tool;
  tool.before = RuleOf({"/a", "/b"});
  const Snapshot before{.version = "\"v1\"", .places = {{"/a", "1"}, {"/b", "2"}}};
  const Json body = Parsed(R"({"b":[3],"c":4})");
  CallValues call;
  call.body = &body;
  const Snapshot planned = PlannedState(tool, before, "PATCH", call);
  EXPECT_EQ(planned.places, (Headers{{"/a", "1"}, {"/b", "[3]"}}));
  EXPECT_EQ(planned.version, "");
  EXPECT_TRUE(PlannedState(tool, before, "DELETE", call).is_gone);
  const Json patches = Parsed(R"([{"op":"replace","path":"/a","value":9}])");
  call.body = &patches;
  EXPECT_EQ(PlannedState(tool, before, "PATCH", call).places, before.places);

  const Headers tag{{"ETag", "\"v2\""}};
  const Json whole = Parsed(R"({"a":7,"b":8})"), part = Parsed(R"({"a":7})");
  CallValues answered;
  answered.answer_headers = &tag;
  answered.answer_body = &whole;
  EXPECT_EQ(StateLeft(tool, planned, answered).places, (Headers{{"/a", "7"}, {"/b", "8"}}));
  answered.answer_body = &part;
  EXPECT_EQ(StateLeft(tool, planned, answered).places, planned.places);
  EXPECT_EQ(StateLeft(tool, planned, answered).version, "\"v2\"");
  answered.answer_body = nullptr;
  EXPECT_EQ(StateLeft(tool, planned, answered).places, planned.places);
}

TEST(SnapshotsTest, AMutationSetsWhatItsUndoPutsBackUnderThatName) {
  const auto loaded = LoadPolicyText("p.yaml", R"(
version: 1
backends: { b: { url: "http://b/graphql", protocol: graphql } }
tools:
  t:
    match: mutation b issueUpdate
    effect: write
    before:
      graphql: "query($id: ID!) { issue(id: $id) { title state { id } } }"
      variables: { id: "{body#/id}" }
      keep: [ body#/data/issue/title, body#/data/issue/state/id ]
    undo:
      graphql: "mutation($i: ID!, $in: In!) { issueUpdate(id: $i, input: $in) { ok } }"
      variables:
        i: "{body#/id}"
        in:
          title: "{before.body#/data/issue/title}"
          stateId: "{before.body#/data/issue/state/id}"
      only_if: unchanged
)");
  ASSERT_TRUE(loaded.ok());
  const Tool& tool = loaded.policy->tools.front();
  const Snapshot before{
      .places = {{"/data/issue/title", "\"old\""}, {"/data/issue/state/id", "1"}}};
  const Json body = Parsed(R"({"id":"7","input":{"stateId":2}})");
  CallValues call;
  call.body = &body;
  const Snapshot planned = PlannedState(tool, before, "POST", call);
  EXPECT_EQ(planned.places,
            (Headers{{"/data/issue/title", "\"old\""}, {"/data/issue/state/id", "2"}}));
  // What its answer shows stands as the backend has taken it.
  const Json answer = Parsed(R"({"data":{"issueUpdate":{"issue":{"title":"Old"}}}})");
  call.answer_body = &answer;
  EXPECT_EQ(StateLeft(tool, planned, call).places,
            (Headers{{"/data/issue/title", "\"Old\""}, {"/data/issue/state/id", "2"}}));
}

constexpr const char* kEdit = R"(
version: 1
backends: { b: { url: "http://b" } }
tools:
  t:
    match: "POST b /edit/{id}"
    effect: write
    identity: [ path.id, body#/text ]
    before:
      request: "GET /shown/{path.id}"
      keep: [ body#/m/text, "body#/m/blocks or null" ]
    undo:
      request: "POST /edit/{path.id}"
      json: { text: "{before.body#/m/text}", blocks: "{before.body#/m/blocks unless null}" }
      only_if: unchanged
)";

TEST(SnapshotsTest, ACallSetsWhatTheSameCallPutsBackUnderThatName) {
  const auto loaded = LoadPolicyText("p.yaml", kEdit);
  ASSERT_TRUE(loaded.ok());
  const Snapshot before{.places = {{"/m/text", "\"old\""}, {"/m/blocks", "null"}}};
  const Json body = Parsed(R"({"text":"new"})");
  CallValues call;
  call.body = &body;
  EXPECT_EQ(PlannedState(loaded.policy->tools.front(), before, "POST", call).places,
            (Headers{{"/m/text", "\"new\""}, {"/m/blocks", "null"}}));
}

TEST(SnapshotsTest, WhatWasNotThereIsLeftOutUnlessTheCallMayHaveSetIt) {
  const auto loaded = LoadPolicyText("p.yaml", kEdit);
  ASSERT_TRUE(loaded.ok());
  const BeforeRule& rule = *loaded.policy->tools.front().before;
  const auto read = ReadSnapshot(rule, Respond(200, R"({"m":{"text":"old"}})").answer, false);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->places, (Headers{{"/m/text", "\"old\""}, {"/m/blocks", "null"}}));
  EXPECT_FALSE(ReadSnapshot(rule, Respond(200, R"({"m":{"blocks":[]}})").answer, false));

  const std::vector<std::pair<std::string, std::string>> path{{"id", "7"}};
  const auto undone = [&](const Json* body) {
    CallValues call;
    call.path = &path;
    call.body = body;
    call.before = &*read;
    const auto request = Render(loaded.policy->tools.front().undo->request, call);
    return request ? request->body : "refused";
  };
  const Json text = Parsed(R"({"text":"new"})"), both = Parsed(R"({"text":"new","blocks":[1]})");
  EXPECT_EQ(undone(&text), R"({"text":"old"})");
  EXPECT_EQ(undone(&both), "refused");
  EXPECT_EQ(undone(nullptr), "refused");
}

TEST(SnapshotsTest, OnlyAWholeAnswerShowsAState) {
  const BeforeRule rule = RuleOf({"/a"});
  const auto why = [&](Answer answer, bool may_be_gone = false) {
    const auto read = ReadSnapshot(rule, answer, may_be_gone);
    return read ? std::string("read") : read.error().why;
  };
  EXPECT_EQ(why(Respond(200, R"({"a":null})").answer), "read");
  EXPECT_EQ(why(Respond(202, R"({"a":1})").answer), "the backend answered 202");
  EXPECT_EQ(why(Respond(404, R"({"a":1})").answer), "the backend answered 404");
  EXPECT_EQ(why(Respond(404, "").answer, true), "read");
  EXPECT_EQ(why(Respond(404, R"({"error":"gone"})").answer, true), "read");
  for (const int status : {203, 206}) {
    EXPECT_EQ(why(Respond(status, R"({"a":1})").answer),
              "the backend answered " + std::to_string(status));
  }
  for (const int status : {200, 404}) {
    Answer old = Respond(status, R"({"a":1})").answer;
    old.response.headers = {{"Age", "7"}};
    EXPECT_EQ(why(old, true), "the answer is an old one, from a cache");
    old.response.headers = {{"Age", "0"}};
    EXPECT_EQ(why(old, true), "read");
  }
  Answer page = Respond(404, "<html>").answer;
  page.response.headers = {{"Content-Type", "text/html"}};
  EXPECT_EQ(why(page, true), "the backend answered 404");
  EXPECT_EQ(why(Respond(200, R"({"b":1})").answer), "the answer has nothing at body#/a");
  EXPECT_EQ(why(Respond(200, "<html>").answer), "the answer is not a whole JSON text");
  Answer cut = Respond(200, R"({"a":1})").answer;
  cut.body_complete = false;
  EXPECT_EQ(why(cut), "the answer is not a whole JSON text");
  const std::string large(limits::kRenderedRequestBytesMax, 'x');
  EXPECT_EQ(why(Respond(200, R"({"a":")" + large + "\"}").answer),
            "what `keep` names is larger than 64 KiB");
}

}  // namespace
}  // namespace recourse::snapshots_test
