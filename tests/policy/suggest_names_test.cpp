// Words of paths that are names of things, and the verdict that a person reads first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/suggest/tool_verdict.h"
#include "tests/policy/seen_traffic.h"

namespace recourse::suggest_names_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

using Answer = SeenTraffic::Answer;

std::vector<std::string> MatchesOf(const SeenTraffic& traffic) {
  std::vector<std::string> matches;
  for (const SuggestedTool& tool : SuggestTools(traffic.seen, {}).tools) {
    matches.push_back(tool.name + " " + tool.seen.Match());
  }
  return matches;
}

SeenTraffic Booked(const std::string& id, const std::string& place = "/id") {
  SeenTraffic traffic;
  traffic.Call("POST", "/bookings", {{"/seat", "S-1"}}, {201, {{place, id}}});
  return traffic;
}

TEST(SuggestNamesTest, OneThingThatWasDeletedIsNoWordOfThePath) {
  SeenTraffic traffic = Booked("b6");
  traffic.Call("DELETE", "/bookings/b6", {}, {204});
  EXPECT_THAT(MatchesOf(traffic), Contains("bookings.delete DELETE shop /bookings/{id}"));
}

TEST(SuggestNamesTest, WhatThePathAboveAnsweredIsAName) {
  SeenTraffic traffic = Booked("ada-lovelace");
  traffic.Call("POST", "/bookings/ada-lovelace/cancel", {}, {200});
  traffic.Call("GET", "/bookings/search", {}, {200});
  EXPECT_THAT(MatchesOf(traffic), ElementsAre("bookings.create POST shop /bookings",
                                              "bookings.search.list GET shop /bookings/search",
                                              "bookings.cancel POST shop /bookings/{id}/cancel"));
}

TEST(SuggestNamesTest, AWordThatAnotherPathOrNoNameAnsweredIsAWord) {
  for (const auto* place : {"/state", "/kind"}) {
    SeenTraffic traffic = Booked("open", place);
    traffic.Call("GET", "/bookings/open", {}, {200});
    EXPECT_THAT(MatchesOf(traffic), Contains("bookings.open.list GET shop /bookings/open"));
  }
  SeenTraffic traffic = Booked("open");
  traffic.Call("GET", "/seats/open", {}, {200});
  EXPECT_THAT(MatchesOf(traffic), Contains("seats.open.list GET shop /seats/open"));
  SeenTraffic later;
  later.Call("GET", "/bookings/open", {}, {200});
  later.Call("POST", "/bookings", {}, {201, {{"/id", "open"}}});
  EXPECT_THAT(MatchesOf(later), Contains("bookings.open.list GET shop /bookings/open"));
}

TEST(SuggestNamesTest, WhatAListCallsByNameIsAName) {
  SeenTraffic traffic;
  traffic.Call("GET", "/rooms", {}, {200, {{"/0/name", "blue"}, {"/1/name", "green"}}});
  for (const auto* room : {"blue", "green", "attic"}) {
    traffic.Call("POST", std::string("/rooms/") + room + "/bookings", {{"/day", "1"}}, {201});
  }
  traffic.Call("GET", "/rooms/search", {}, {200});
  traffic.Call("GET", "/rooms/all/seats", {}, {200});
  EXPECT_THAT(MatchesOf(traffic), ElementsAre("rooms.list GET shop /rooms",
                                              "rooms.all.seats.list GET shop /rooms/all/seats",
                                              "rooms.search.list GET shop /rooms/search",
                                              "rooms.bookings POST shop /rooms/{id}/bookings"));
}

TEST(SuggestNamesTest, AShapeOfANameIsEnough) {
  const std::vector<std::vector<std::string>> ids{
      {"b6"}, {"cart1", "cart2"}, {"cart1", "17"}, {"01J9ZQ4T0V8WXYZABCDEFGHJK"}};
  for (const auto& names : ids) {
    SeenTraffic traffic;
    for (const std::string& name : names) traffic.Call("GET", "/bookings/" + name, {}, {200});
    EXPECT_THAT(MatchesOf(traffic), ElementsAre("bookings.get GET shop /bookings/{id}"))
        << names[0];
  }
  SeenTraffic traffic;
  traffic.Call("PUT", "/carts/cart1", {{"/n", "1"}}, {200});
  EXPECT_THAT(MatchesOf(traffic), ElementsAre("carts.replace PUT shop /carts/{id}"));
}

TEST(SuggestNamesTest, VersionsAndWordsWithANumberStay) {
  SeenTraffic traffic;
  traffic.Call("GET", "/api/v1/login/oauth2", {}, {200});
  traffic.Call("GET", "/api/v2/login/oauth2", {}, {200, {{"/version", "v2"}}});
  traffic.Call("GET", "/api/v2/login/oauth2", {}, {200});
  EXPECT_THAT(MatchesOf(traffic),
              ElementsAre("api.v1.login.oauth2.list GET shop /api/v1/login/oauth2",
                          "api.v2.login.oauth2.list GET shop /api/v2/login/oauth2"));
}

TEST(SuggestNamesTest, EachToolHasALineOfWhatHoldsAndWhatDoesNot) {
  SeenTraffic traffic;
  for (int i = 10; i < 35; ++i) {
    const std::string n = std::to_string(i);
    const SeenMembers body{{"/cart_id", "cart-" + n}};
    if (i % 5 == 0) traffic.Call("POST", "/orders", body, SeenTraffic::Lost());
    traffic.Call("POST", "/orders", body, {201, {{"/id", "ord-" + n}}});
    if (i % 5 == 0) traffic.Call("DELETE", "/orders/ord-" + n, {}, {204});
    traffic.Call("POST", "/notes", {{"/text", "words " + n, ValueKind::kText}}, {201});
  }
  traffic.Call("GET", "/users/7/delete", {}, {200});
  const Suggestion made = SuggestTools(traffic.seen, {});
  const std::string lines = VerdictLines(made);
  EXPECT_EQ(std::ranges::count(lines, '\n'), 4) << lines;
  EXPECT_THAT(lines, HasSubstr("\n  orders.create      write, 30 calls; identity of 25 intents, 5 "
                               "repeats; undo DELETE /orders/{external_ref} of 5 of 25\n"));
  EXPECT_THAT(lines,
              HasSubstr("  notes.create       write, 25 calls; OPEN: identity (no repeat was "
                        "seen); undo undecided, as no call seen takes it back\n"));
  EXPECT_THAT(lines, HasSubstr("OPEN: it is called like a change"));
  EXPECT_THAT(lines, HasSubstr("OPEN: undo: none, as it takes back orders.create\n"));
  std::size_t to_decide = 0;
  for (const SuggestedTool& tool : made.tools) to_decide += VerdictOf(tool).must_decide;
  EXPECT_EQ(to_decide, 1);
}

TEST(SuggestNamesTest, WhatAServerCallsItsToolsCannotWriteToTheTerminal) {
  SeenTraffic traffic;
  traffic.CallTool("a\x1b[2Jb", {{"/x", "1"}}, {400});
  const std::string lines = VerdictLines(SuggestTools(traffic.seen, {}));
  EXPECT_THAT(lines, Not(HasSubstr("\x1b")));
  EXPECT_THAT(lines, EndsWith("no call of it succeeded\n"));
}

}  // namespace
}  // namespace recourse::suggest_names_test
