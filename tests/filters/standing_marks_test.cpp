// What calls by name, MOVE and COPY, and doors to one service leave, and what ends their answers.
#include "filters/key/standing_marks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "filters/key/key.h"
#include "filters/ledger/model/standing_notes.h"
#include "policy/model/route_table.h"
#include "tests/filters/saga_shop.h"

namespace recourse::standing_marks_test {
namespace {

constexpr const char* kPolicy = R"(
version: 1
backends:
  m: { url: "http://m.test/mcp", protocol: mcp }
  g: { url: "http://g.test/graphql", protocol: graphql }
  b: { url: "http://b.test" }
tools:
  get: { match: tools/call m get, effect: read }
  edit:
    match: tools/call m edit
    effect: write
    before: { call: get, arguments: { number: "{body#/number}" }, keep: [ body#/title ] }
    undo: { call: edit, arguments: { number: "{body#/number}", title: "{before.body#/title}" },
            only_if: always }
  rename:
    match: tools/call m rename
    effect: write
    before: { call: get, arguments: { number: "{body#/no}" }, keep: [ body#/title ] }
    undo: { call: edit, arguments: { number: "{body#/no}", title: "{before.body#/title}" },
            only_if: always }
  shout:
    match: tools/call m shout
    effect: write
    before: { call: get, arguments: { number: "{body#/number}" }, keep: [ body#/title ] }
    undo: { call: edit, arguments: { number: "{body#/number}", title: "{before.body#/title}" },
            only_if: always }
  take:
    match: tools/call m take
    effect: write
    undo: { call: put, arguments: { seat_id: "{body#/seat_id}", size: "{body#/size}" } }
  put: { match: tools/call m put, effect: write, undo: none, reason: r }
  level: { match: tools/call m level, effect: write, undo: none, reason: r, superseded_by: others }
  make:
    match: tools/call m make
    effect: write
    same_as: { tool: docs.make, identity: body#/title }
    external_ref: answer.body#/id
    undo: { call: drop, arguments: { id: "{external_ref}" } }
  drop:
    match: tools/call m drop
    effect: write
    undo: none
    reason: r
    same_as: { tool: docs.drop, identity: body#/id }
  docs.make:
    match: POST b /docs
    effect: write
    identity: body#/title
    external_ref: answer.body#/id
    undo: { request: "DELETE /docs/{external_ref}" }
  docs.drop: { match: "DELETE b /docs/{id}", effect: write, identity: path.id, undo: none,
               reason: r }
  topic:
    match: POST b /api/topic
    effect: write
    ignore: [ /nonce ]
    before: { request: "GET /api/info?channel={body#/channel}", keep: [ body#/topic, body#/by ] }
    undo: { request: "POST /api/topic", only_if: always, leaves: body#/by,
            json: { channel: "{body#/channel}", topic: "{before.body#/topic}" } }
  labels.add:
    match: "POST b /issues/{id}/labels"
    effect: write
    superseded_by: label.drop
    before: { request: "GET /issues/{path.id}/labels", keep: body# }
    undo: { request: "PUT /issues/{path.id}/labels", json: { labels: "{before.body#}" },
            only_if: always }
  label.drop: { match: "DELETE b /issues/{id}/labels/{name}", effect: write, undo: none,
                reason: r }
  update:
    match: mutation g update
    effect: write
    before: { graphql: "query($id: ID!) { thing(id: $id) { title } }",
              variables: { id: "{body#/id}" }, keep: body#/data/thing/title }
    undo:
      graphql: "mutation($id: ID!, $in: In!) { update(id: $id, input: $in) { ok } }"
      variables: { id: "{body#/id}", in: { title: "{before.body#/data/thing/title}" } }
      only_if: always
)";

const HmacKey kSecret("secret");

const std::shared_ptr<const Policy>& ThePolicy() {
  static const std::shared_ptr<const Policy> policy = PolicyOf(kPolicy);
  return policy;
}

struct Made {
  std::string tool, backend, method, path;
  DerivedKey key;
  CallBody body;
};

Made Derive(const std::string& tool_name, const std::string& backend, HttpRequest request,
            CallBody body, Pairs captures = {}) {
  static const std::string kNone, kCaller = "agent";
  static const std::vector<Caller::Earlier> kNoEarlier;
  static const PrincipalRule kUsual;
  static const Pairs kNoQuery;
  const Tool* const tool = ThePolicy()->FindTool(tool_name);
  TraceContext trace;
  trace.trace_id = std::string(32, 'a');
  trace.from_client = true;
  const std::string path = request.target;
  auto key = DeriveKey({kSecret, tool == nullptr ? UnlistedTool() : *tool, tool_name, kCaller,
                        kNone, kNoEarlier, backend, kUsual, trace, request, path, captures,
                        kNoQuery, body, tool == nullptr ? nullptr : &tool->undoes});
  EXPECT_TRUE(key) << tool_name;
  Made made{tool_name, backend, request.method, path, {}, std::move(body)};
  if (key) made.key = std::move(*key);
  return made;
}

Made Named(const std::string& tool, const std::string& arguments,
           const std::string& backend = "m") {
  CallBody body;
  body.form = BodyForm::kJson;
  body.json = *ParseJson(arguments);
  body.call_name = tool;
  body.call_method = "tools/call";
  return Derive(tool, backend, {"POST", "/mcp", {}, ""}, std::move(body));
}

Made Plain(const std::string& method, const std::string& path, Headers fields = {},
           const std::string& tool = "unlisted.b", Pairs captures = {}) {
  return Derive(tool, "b", {method, path, std::move(fields), ""}, {}, std::move(captures));
}

// With what its answer tells.
Made Answered(Made made, const std::string& id) {
  Event event;
  event.tool = made.tool;
  event.backend = made.backend;
  event.method = made.body.call_name.empty() ? made.method : "tools/call";
  event.path = made.path;
  event.stands = made.key.stands;
  const Tool& tool = *ThePolicy()->FindTool(made.tool);
  const Backend& backend = ThePolicy()->backends[tool.backend];
  CallValues values;
  values.body = made.body.values();
  values.external_ref = id;
  const Snapshot before{.places = {{"/topic", R"("old")"}}};
  values.before = &before;
  Transition transition;
  transition.to = Phase::kSucceeded;
  transition.external_ref = id;
  if (auto undo = Render(tool.undo->request, values)) transition.undo = std::move(*undo);
  AddEffect({ThePolicy().get(), backend, made.path, nullptr, &values}, kSecret, event, transition);
  auto& stands = made.key.stands;
  stands.made.insert(stands.made.end(), transition.made.begin(), transition.made.end());
  stands.ended_by.insert(stands.ended_by.end(), transition.ended_by.begin(),
                         transition.ended_by.end());
  return made;
}

bool MayEnd(const Made& later, const Made& earlier) {
  const Standing& was = earlier.key.stands;
  if (was.kind == WriteKind::kPatch && later.key.stands.kind == WriteKind::kPatch &&
      later.key.resource == earlier.key.resource && Contradicts(later.key.stands, was)) {
    return true;
  }
  const std::vector<Mark> left = LeftBy(later.key.stands, later.key.resource);
  std::vector<Mark> ends = EndsOf(was, earlier.key.resource);
  for (const Mark& doubt : DoubtsOf(was)) ends.push_back(doubt);
  return std::ranges::any_of(
      ends, [&](const Mark& mark) { return std::ranges::find(left, mark) != left.end(); });
}

TEST(StandingMarksTest, ACallByNameThatSetsAValueIsEndedByOneThatSetsAnother) {
  const Made first = Named("edit", R"({"number":7,"title":"a"})");
  EXPECT_TRUE(MayEnd(Named("edit", R"({"number":7,"title":"b"})"), first));
  EXPECT_FALSE(MayEnd(Named("edit", R"({"number":8,"title":"b"})"), first));
  EXPECT_FALSE(MayEnd(Named("edit", R"({"number":7,"title":"a"})"), first));
  // Another tool that reads the same before it writes is about the same.
  EXPECT_TRUE(MayEnd(Named("rename", R"({"no":7,"title":"b"})"), first));
  EXPECT_TRUE(MayEnd(Named("shout", R"({"number":7})"), first)) << "it has no argument for it";
  EXPECT_TRUE(MayEnd(first, Named("shout", R"({"number":7})")));
  EXPECT_FALSE(MayEnd(Named("shout", R"({"number":8})"), first));
  EXPECT_FALSE(MayEnd(Named("make", R"({"title":"b"})"), first));
  // It leaves alone what it does not name.
  const Made note = Named("edit", R"({"number":7,"note":"x"})");
  EXPECT_FALSE(MayEnd(note, first));
  EXPECT_TRUE(MayEnd(Named("edit", R"({"number":7,"note":"y"})"), note));
}

TEST(StandingMarksTest, AMutationIsToldByTheVariablesOfWhatItReadsBefore) {
  const Made first = Named("update", R"({"id":"7","input":{"title":"a"}})", "g");
  EXPECT_TRUE(MayEnd(Named("update", R"({"id":"7","input":{"title":"b"}})", "g"), first));
  EXPECT_FALSE(MayEnd(Named("update", R"({"id":"8","input":{"title":"b"}})", "g"), first));
  const Made color = Named("update", R"({"id":"7","input":{"color":"x"}})", "g");
  EXPECT_FALSE(MayEnd(color, first));
  EXPECT_TRUE(MayEnd(Named("update", R"({"id":"7","input":{"color":"y"}})", "g"), color));
}

Made Posted(const std::string& tool, const std::string& path, const std::string& arguments,
            Pairs captures = {}) {
  CallBody body;
  body.form = BodyForm::kJson;
  body.json = *ParseJson(arguments);
  return Derive(tool, "b", {"POST", path, {}, arguments}, std::move(body), std::move(captures));
}

TEST(StandingMarksTest, APostThatItsUndoRepeatsWithWhatWasThereBeforeSetsAState) {
  const Made first = Posted("topic", "/api/topic", R"({"channel":"1","topic":"a","nonce":1})");
  const Made other = Posted("topic", "/api/topic", R"({"channel":"1","topic":"b","nonce":2})");
  EXPECT_TRUE(MayEnd(other, first));
  EXPECT_TRUE(MayEnd(first, other));
  for (const char* arguments :
       {R"({"channel":"1","topic":"a","nonce":2})", R"({"channel":"2","topic":"b"})",
        R"({"channel":"1","note":"x"})"}) {
    EXPECT_FALSE(MayEnd(Posted("topic", "/api/topic", arguments), first)) << arguments;
  }
  EXPECT_FALSE(
      MayEnd(Posted("topic", "/api/topic?draft=1", R"({"channel":"1","topic":"b"})"), first))
      << "its query may say of what";
  // On its path it is a POST as any other one is.
  EXPECT_TRUE(MayEnd(Plain("PUT", "/api/topic"), first));
  EXPECT_TRUE(MayEnd(Plain("DELETE", "/api/topic"), first));
  EXPECT_FALSE(MayEnd(Plain("PATCH", "/api/topic"), first));
  EXPECT_TRUE(MayEnd(first, Plain("PUT", "/api/topic")));
  EXPECT_FALSE(MayEnd(first, Plain("PATCH", "/api/topic")));
  const std::vector<Mark> gone = RemovalsOf(first.key.stands, first.key.resource);
  const std::vector<Mark> left =
      LeftBy(Plain("DELETE", "/api/topic").key.stands, Plain("DELETE", "/api/topic").key.resource);
  EXPECT_TRUE(std::ranges::any_of(
      gone, [&](const Mark& mark) { return std::ranges::find(left, mark) != left.end(); }));
}

TEST(StandingMarksTest, ItsOwnUndoLeavesNoDoubtAboutWhatOthersPost) {
  const Made first = Answered(Posted("topic", "/api/topic", R"({"channel":"1","topic":"a"})"), "");
  EXPECT_FALSE(MayEnd(Posted("topic", "/api/topic", R"({"channel":"2","topic":"b"})"), first));
  EXPECT_TRUE(UndoPlaces(first.key.stands).empty());
}

TEST(StandingMarksTest, WhatTakesOneOfAThingAwayEndsWhatIsSaidOfThatThingAlone) {
  const auto drop = [](const std::string& id) {
    return Plain("DELETE", "/issues/" + id + "/labels/x", {}, "label.drop",
                 {{"id", id}, {"name", "x"}});
  };
  const Made add = Posted("labels.add", "/issues/1/labels", R"({"labels":["x"]})", {{"id", "1"}});
  EXPECT_TRUE(MayEnd(drop("1"), add));
  EXPECT_FALSE(MayEnd(drop("2"), add));
  EXPECT_EQ(add.key.stands.kind, WriteKind::kPost) << "it adds, whatever is there";
  EXPECT_FALSE(
      MayEnd(Posted("labels.add", "/issues/1/labels", R"({"labels":["y"]})", {{"id", "1"}}), add));
}

TEST(StandingMarksTest, ACallByNameThatMakesSomethingIsEndedByNoOtherOne) {
  const Made first = Named("make", R"({"title":"a"})");
  EXPECT_EQ(first.key.resource, Digest{});
  EXPECT_FALSE(MayEnd(Named("make", R"({"title":"b"})"), first));
}

TEST(StandingMarksTest, ThePolicySaysThatACallByNameSetsSomething) {
  const Made first = Named("level", R"({"value":1})");
  EXPECT_TRUE(MayEnd(Named("level", R"({"value":2})"), first));
  EXPECT_TRUE(IsIdempotent(first.key.stands.kind)) << "to make it again does no harm";
  EXPECT_FALSE(MayEnd(Named("edit", R"({"number":7,"title":"b"})"), first));
}

TEST(StandingMarksTest, AnUndoCallWithMoreArgumentsThanThePolicysMayHaveTakenItBack) {
  const Made first = Answered(Named("take", R"({"seat_id":"s1","size":5})"), "");
  EXPECT_TRUE(MayEnd(Named("put", R"({"seat_id":"s1","size":5})"), first));
  const Made more = Named("put", R"({"seat_id":"s1","size":5,"why":"x"})");
  EXPECT_TRUE(MayEnd(more, first));
  const std::vector<Mark> doubts = DoubtsOf(first.key.stands);
  EXPECT_TRUE(std::ranges::any_of(more.key.stands.leaves, [&](const Mark& mark) {
    return std::ranges::find(doubts, mark) != doubts.end();
  })) << "it is no more than a doubt";
  EXPECT_FALSE(MayEnd(Named("put", R"({"seat_id":"s2","size":5})"), first));
}

TEST(StandingMarksTest, WhatIsMovedOrCopiedOntoAPlaceEndsWhatStoodThere) {
  const Made put = Plain("PUT", "/files/b"), patch = Plain("PATCH", "/files/b");
  const Made at_source = Plain("PATCH", "/files/a");
  for (const char* target :
       {"/files/b", "http://b.test/files/b", "https://b.test:8443/files/%62/"}) {
    const Made move = Plain("MOVE", "/files/a", {{"Destination", target}});
    const Made copy = Plain("COPY", "/files/a", {{"Destination", target}});
    for (const Made* later : {&move, &copy}) {
      EXPECT_TRUE(MayEnd(*later, put)) << target;
      EXPECT_TRUE(MayEnd(*later, patch)) << target;
      EXPECT_FALSE(MayEnd(*later, Plain("PUT", "/files/c"))) << target;
      EXPECT_TRUE(MayEnd(put, *later)) << target;
      EXPECT_TRUE(MayEnd(Plain("PUT", "/files/a"), *later)) << target;
      EXPECT_TRUE(NoteIn(later->key.stands, NoteKind::kExact)) << target;
    }
    EXPECT_TRUE(MayEnd(move, at_source));
    EXPECT_FALSE(MayEnd(copy, at_source));
  }
  EXPECT_FALSE(MayEnd(Plain("MOVE", "/files/a", {{"Destination", "elsewhere"}}), put));
  EXPECT_FALSE(MayEnd(Plain("LOCK", "/files/a", {{"Destination", "/files/b"}}), patch));
}

TEST(StandingMarksTest, WhatOneDoorMadeIsTakenBackByADeleteThroughEither) {
  const Made by_path = Answered(
      [] {
        CallBody body;
        body.form = BodyForm::kJson;
        body.json = *ParseJson(R"({"title":"a"})");
        return Derive("docs.make", "b", {"POST", "/docs", {}, ""}, std::move(body));
      }(),
      "x1");
  const Made by_name = Answered(Named("make", R"({"title":"a"})"), "x1");
  EXPECT_EQ(by_path.key.key, by_name.key.key) << "they are one";
  for (const Made* made : {&by_path, &by_name}) {
    EXPECT_TRUE(MayEnd(Plain("DELETE", "/docs/x1", {}, "docs.drop", {{"id", "x1"}}), *made));
    EXPECT_TRUE(MayEnd(Named("drop", R"({"id":"x1"})"), *made));
    EXPECT_FALSE(MayEnd(Plain("DELETE", "/docs/x2", {}, "docs.drop", {{"id", "x2"}}), *made));
    EXPECT_FALSE(MayEnd(Named("drop", R"({"id":"x2"})"), *made));
    EXPECT_FALSE(MayEnd(Named("make", R"({"title":"b"})"), *made));
  }
}

}  // namespace
}  // namespace recourse::standing_marks_test
