// What the state of a thing proves of the write that was to bring it about: the whole table, and
// what answers are read for it.
#include "filters/settle/state_seen.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "filters/call/snapshots.h"
#include "policy/language/loader.h"
#include "policy/undo/put_back.h"
#include "tests/policy/policy_builder.h"

namespace recourse::state_seen_test {
namespace {

using enum ProbeVerdict;

TEST(StateSeenTest, TheTable) {
  struct Row {
    Stands before, now;
    bool is_untouched, is_said_absent;
    ProbeVerdict verdict;
  };
  constexpr Stands kAny[] = {Stands::kUnclear, Stands::kThere, Stands::kNotThere};
  int present = 0, absent = 0, rows = 0;
  for (const Stands before : kAny) {
    for (const Stands now : kAny) {
      for (const bool is_untouched : {false, true}) {
        for (const bool is_said : {false, true}) {
          const auto verdict = VerdictOf({before, now, is_untouched, is_said});
          const bool is_denied = is_untouched || is_said;
          // It has come about, and nothing says that it has not.
          const bool has_come = before == Stands::kNotThere && now == Stands::kThere && !is_denied;
          // It is not there, and something says that it never was meanwhile.
          const bool never_was = now == Stands::kNotThere && is_denied;
          EXPECT_EQ(verdict, has_come ? kPresent : never_was ? kAbsent : kNothing);
          present += verdict == kPresent ? 1 : 0;
          absent += verdict == kAbsent ? 1 : 0;
          ++rows;
        }
      }
    }
  }
  EXPECT_EQ(rows, 36);
  EXPECT_EQ(present, 1);
  EXPECT_EQ(absent, 9);
}

std::shared_ptr<const Policy> PolicyWith(const std::string& words) {
  auto loaded = LoadPolicyText("p.yaml",
                               "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n  t: { "
                               "effect: write, identity: body#/a, " +
                                   words + " }\n");
  EXPECT_EQ(ProblemsOf(loaded), "");
  return std::shared_ptr<const Policy>(std::move(loaded.policy));
}

// An update that puts back what it changed.
const std::string kUpdate =
    "match: \"PATCH b /t/{id}\", before: { request: \"GET /t/{path.id}\", keep: [ body#/title, "
    "body#/open, body#/owner ], version: header.ETag }, undo: { request: \"PATCH /t/{path.id}\", "
    "json: { title: \"{before.body#/title}\", open: \"{before.body#/open}\", owner: "
    "\"{before.body#/owner}\" }, only_if: unchanged }, settle: { request: before, happened: "
    "as_set, absent_after: 1s }";
// A change of state that nothing takes back.
const std::string kVoid =
    "match: \"POST b /t/{id}/void\", before: { request: \"GET /t/{path.id}\", keep: body#/status, "
    "missing: go_on }, undo: none, reason: r, settle: { request: before, happened: "
    "'answer.body#/status == \"VOIDED\"', absent: 'answer.body#/status == \"CREATED\"' }";
const std::string kDelete =
    "match: \"DELETE b /t/{id}\", before: { request: \"GET /t/{path.id}\", keep: body#/id, "
    "version: "
    "header.ETag }, undo: none, reason: r, settle: { request: before, "
    "happened: as_set }";

Event Unknown(Snapshot before, Snapshot ours, const std::vector<std::string>& sets = {}) {
  Event event;
  event.phase = Phase::kUncertain;
  event.attempt = 1;
  event.state = StateKept{{"GET", "/t/7", {}, ""}, std::move(before), std::move(ours)};
  NotePlaces(sets, event.state->request.headers);
  return event;
}

Snapshot State(std::vector<std::pair<std::string, std::string>> places, std::string version = "") {
  return {.version = std::move(version), .places = std::move(places)};
}

Answer Says(std::string body, std::string tag = "", int status = 200) {
  Answer answer;
  answer.response = {status, "", {{"Content-Type", "application/json"}}, std::move(body)};
  if (!tag.empty()) answer.response.headers.emplace_back("ETag", tag);
  answer.body_complete = true;
  return answer;
}

// The call sets the title to "New".
Event Renamed(const std::vector<std::string>& sets = {"/title"}) {
  return Unknown(State({{"/title", "\"Old\""}, {"/open", "true"}, {"/owner", "null"}}, "\"1\""),
                 State({{"/title", "\"New\""}, {"/open", "true"}, {"/owner", "null"}}), sets);
}

ProbeVerdict VerdictFor(const std::string& words, const Event& event, const Answer& answer) {
  const auto policy = PolicyWith(words);
  return JudgeState(policy->tools[0], event, answer).verdict;
}

TEST(StateSeenTest, WhatACallSetsIsLookedFor) {
  const auto verdict = [](const std::string& body, const std::string& tag,
                          const std::vector<std::string>& sets = {"/title"}) {
    return VerdictFor(kUpdate, Renamed(sets), Says(body, tag));
  };
  const std::string with_new = R"({"title":"New","open":true,"owner":null})";
  const std::string with_old = R"({"title":"Old","open":true,"owner":null})";
  EXPECT_EQ(verdict(with_new, "\"2\""), kPresent);
  EXPECT_EQ(verdict(with_old, "\"1\""), kAbsent);
  // Of another version it may have been overwritten since, and brought back.
  EXPECT_EQ(verdict(with_old, "\"2\""), kNothing);
  EXPECT_EQ(verdict(with_old, ""), kNothing);
  EXPECT_EQ(verdict(R"({"title":"Theirs","open":true,"owner":null})", "\"2\""), kNothing);
  // One that stays while things change, such as a time in seconds, says nothing of them.
  EXPECT_EQ(verdict(with_new, "\"1\""), kPresent);
  EXPECT_EQ(verdict(R"({"title":"Old","open":false,"owner":null})", "\"1\""), kNothing);
  // What it sets besides cannot be seen: that it is there, nobody knows; that it is not, the rest.
  EXPECT_EQ(verdict(with_new, "\"2\"", {"/title", "/color"}), kNothing);
  EXPECT_EQ(verdict(with_old, "\"1\"", {"/title", "/color"}), kAbsent);
  EXPECT_EQ(verdict(with_old, "\"1\"", {"/color"}), kNothing);
  EXPECT_EQ(verdict(with_new, "\"2\"", {""}), kNothing) << "nobody can tell what it sets";
  EXPECT_EQ(verdict(with_new, "\"2\"", {}), kNothing);
  // All of it, not a part.
  Event both = Renamed({"/title", "/open"});
  both.state->ours.places[1].second = "false";
  EXPECT_EQ(VerdictFor(kUpdate, both, Says(with_new, "\"2\"")), kNothing);
  EXPECT_EQ(
      VerdictFor(kUpdate, both, Says(R"({"title":"New","open":false,"owner":null})", "\"2\"")),
      kPresent);
}

TEST(StateSeenTest, WhatShowsByNowAndDidNotBeforeIsNew) {
  Event event = Renamed({"/title/en"});
  event.state->before.places[0].second = "{}";
  event.state->ours.places[0].second = R"({"en":"New"})";
  const auto verdict = [&](const std::string& title) {
    return VerdictFor(kUpdate, event,
                      Says(R"({"title":)" + title + R"(,"open":true,"owner":null})"));
  };
  EXPECT_EQ(verdict(R"({"en":"New"})"), kPresent);
  EXPECT_EQ(verdict("{}"), kNothing) << "not everything is ever shown";
}

TEST(StateSeenTest, WhatWasSoBeforeIsNobodysDoing) {
  Event event = Renamed();
  event.state->before.places[0].second = "\"New\"";
  EXPECT_EQ(
      VerdictFor(kUpdate, event, Says(R"({"title":"New","open":true,"owner":null})", "\"2\"")),
      kNothing);
  for (const char* const status : {"VOIDED", "CAPTURED"}) {
    const Event voided = Unknown(State({{"/status", '"' + std::string(status) + '"'}}), {});
    const auto verdict = VerdictFor(kVoid, voided, Says(R"({"status":"VOIDED"})"));
    EXPECT_EQ(verdict, std::string_view(status) == "VOIDED" ? kNothing : kPresent);
  }
  Event unread;
  unread.phase = Phase::kUncertain;
  EXPECT_EQ(VerdictFor(kVoid, unread, Says(R"({"status":"VOIDED"})")), kNothing);
  EXPECT_EQ(VerdictFor(kVoid, unread, Says(R"({"status":"CREATED"})")), kNothing);
}

TEST(StateSeenTest, AStateThatThePolicyCallsAbsentIs) {
  const Event event = Unknown(State({{"/status", "\"CREATED\""}}), {});
  const auto verdict = [&](const Answer& answer) { return VerdictFor(kVoid, event, answer); };
  EXPECT_EQ(verdict(Says(R"({"status":"VOIDED"})")), kPresent);
  EXPECT_EQ(verdict(Says(R"({"status":"CREATED"})")), kAbsent);
  EXPECT_EQ(verdict(Says(R"({"status":"CAPTURED"})")), kNothing);
  EXPECT_EQ(verdict(Says(R"({"status":null})")), kNothing);
  EXPECT_EQ(verdict(Says(R"({"id":"7"})")), kNothing);
  EXPECT_EQ(verdict(Says(R"({"error":"gone"})", "", 404)), kNothing) << "it has no state at all";
  for (const int status : {202, 203, 206, 500}) {
    EXPECT_EQ(verdict(Says(R"({"status":"CREATED"})", "", status)), kNothing) << status;
    EXPECT_EQ(verdict(Says(R"({"status":"VOIDED"})", "", status)), kNothing) << status;
  }
  Answer old = Says(R"({"status":"CREATED"})");
  old.response.headers.emplace_back("Age", "9");
  EXPECT_EQ(verdict(old), kNothing);
  Answer cut = Says(R"({"status":"VOIDED"})");
  cut.body_complete = false;
  EXPECT_EQ(verdict(cut), kNothing);
  const auto policy = PolicyWith(kVoid);
  const Result<Answer> none = std::unexpected(Error(ErrorCode::kBackendTimeout));
  EXPECT_EQ(JudgeState(policy->tools[0], event, none).verdict, kNothing);
}

// GraphQL answers a field that failed with null, and with the error beside it.
TEST(StateSeenTest, WhatIsNullForAnErrorIsNotKnown) {
  const std::string reopen =
      "match: \"POST b /t/{id}/reopen\", before: { request: \"GET /t/{path.id}\", keep: "
      "[ body#/closed, body#/whole ], missing: go_on }, undo: none, reason: r, settle: { request: "
      "before, happened: answer.body#/closed == null }";
  const Event event = Unknown(State({{"/closed", "\"today\""}, {"/whole", "{}"}}), {});
  const auto policy = PolicyWith(reopen);
  const auto reads = [&](const std::string& body) {
    return ReadSnapshot(*policy->tools[0].before, Says(body), false).has_value();
  };
  const std::string closed = R"({"closed":null,"whole":{})",
                    error = R"("errors":[{"message":"x"}])";
  EXPECT_EQ(VerdictFor(reopen, event, Says(closed + "}")), kPresent);
  EXPECT_EQ(VerdictFor(reopen, event, Says(closed + "," + error + "}")), kNothing);
  EXPECT_FALSE(reads(closed + "," + error + "}")) << "an undo would put null back";
  EXPECT_FALSE(reads(R"({"closed":"x","whole":{"a":null},)" + error + "}"));
  EXPECT_TRUE(reads(R"({"closed":"x","whole":{"a":1},)" + error + "}")) << "what shows is there";
  EXPECT_TRUE(reads(closed + R"(,"errors":[]})"));
}

TEST(StateSeenTest, WhatIsDeletedIsGone) {
  const Event event = Unknown(State({{"/id", "7"}}, "\"1\""), Snapshot{.is_gone = true});
  EXPECT_EQ(VerdictFor(kDelete, event, Says(R"({"error":"no such thing"})", "", 404)), kPresent);
  EXPECT_EQ(VerdictFor(kDelete, event, Says("<html>", "", 404)), kNothing);
  EXPECT_EQ(VerdictFor(kDelete, event, Says(R"({"id":7})", "\"1\"")), kAbsent);
  EXPECT_EQ(VerdictFor(kDelete, event, Says(R"({"id":7})", "\"2\"")), kNothing)
      << "another one, or one that is being deleted";
}

// What was read last before the second attempt may have been the first one's doing.
TEST(StateSeenTest, OfSeveralAttemptsUnderOneKeyTheVersionProvesNothing) {
  Event event = Renamed();
  event.attempt = 2;
  const Answer same = Says(R"({"title":"Old","open":true,"owner":null})", "\"1\"");
  EXPECT_EQ(VerdictFor(kUpdate, event, same), kAbsent) << "the first one is known to be none";
  event.dedupe_domain = 7;
  EXPECT_EQ(VerdictFor(kUpdate, event, same), kNothing);
}

// Whoever has done it: what is there is never taken back by itself.
TEST(StateSeenTest, NoUndoRestsOnAState) {
  const auto policy = PolicyWith(kUpdate);
  const Tool& tool = policy->tools[0];
  const Event event = Renamed();
  const ProbeReading reading =
      JudgeState(tool, event, Says(R"({"title":"New","open":true,"owner":null})", "\"2\""));
  const Transition found = PresentTransition(event, FindingOf(reading, tool), tool, {{"id", "7"}});
  EXPECT_EQ(found.to, Phase::kSucceeded);
  EXPECT_FALSE(found.undo);
  EXPECT_TRUE(found.drops_undo) << "nor the one that was rendered with the call";
  EXPECT_NE(found.detail.find("the undo request cannot be made: what it asked for is there"),
            std::string::npos)
      << found.detail;
  const Transition known = PresentTransition(event, {.external_ref = "7"}, tool, {{"id", "7"}});
  EXPECT_TRUE(known.undo) << known.detail;
  Event taken_on = event;
  taken_on.http_status = 202;
  EXPECT_TRUE(PresentTransition(taken_on, FindingOf(reading, tool), tool, {{"id", "7"}}).undo)
      << "the backend has said that it does it";
}

}  // namespace
}  // namespace recourse::state_seen_test
