// Lists that are searched for what was made: probes with `where`, shown by counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/language/loader.h"
#include "tests/policy/seen_traffic.h"

namespace recourse::suggest_search_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string N(int number) { return std::to_string(number); }

// Bookings of five hours on each of five days in one of two rooms; every fifth is asked for twice,
// in other words. Each day's list is read afterwards.
class Bookings {
 public:
  explicit Bookings(int count = 25) {
    for (int i = 0; i < count; ++i) {
      const SeenMembers body{{"/day", Day(i)},
                             {"/hour", Hour(i), ValueKind::kNumber},
                             {"/note", "note of " + N(i), ValueKind::kText}};
      if (i % 5 == 0) {
        SeenMembers other = body;
        other[2].value = "words of " + N(i);
        traffic.Call("POST", Path(i), other, SeenTraffic::Lost());
      }
      traffic.Call("POST", Path(i), body, {201, {{"/booking/ref", Ref(i)}}});
      traffic.Call("GET", Path(i) + "/" + Ref(i), {}, {200, {{"/ref", Ref(i)}}});
    }
  }
  static std::string Day(int i) { return "day" + N(i / 5 + 10); }
  static std::string Hour(int i) { return N(i % 5 + 900); }
  static std::string Ref(int i) { return "ref" + N(i + 100); }
  static std::string Path(int i) { return "/rooms/" + N(i % 2 + 50) + "/bookings"; }

  // The list that has those, and others that nobody here has made.
  void List(int of, const std::vector<int>& items, bool has_hours = true) {
    SeenMembers values;
    for (std::size_t at = 0; at < items.size(); ++at) {
      const std::string element = "/items/" + N(static_cast<int>(at));
      values.push_back({element + "/ref", Ref(items[at])});
      values.push_back({element + "/day", Day(items[at])});
      if (has_hours) values.push_back({element + "/hour", Hour(items[at]), ValueKind::kNumber});
    }
    traffic.Call("GET", Path(of) + "?day=" + Day(of), {}, {200, values});
  }
  SuggestedTool Tool() const { return traffic.Tool("POST", "/rooms/{id}/bookings"); }

  SeenTraffic traffic;
};

// Those of the same day and room, as their list has them.
std::vector<int> Beside(int i) {
  std::vector<int> all;
  for (int other = i / 5 * 5; other < i / 5 * 5 + 5; ++other) {
    if (other % 2 == i % 2) all.push_back(other);
  }
  return all;
}

TEST(SuggestSearchTest, AListThatIsAskedForAPartOfTheIdentityIsSearchedForTheRest) {
  Bookings bookings;
  for (int i = 0; i < 25; i += 3) bookings.List(i, Beside(i));
  const SuggestedTool tool = bookings.Tool();
  EXPECT_THAT(tool.identity.identity, ElementsAre("body#/day", "body#/hour", "path.id"))
      << tool.identity.why;
  ASSERT_TRUE(tool.links.probe);
  const SuggestedProbe& probe = *tool.links.probe;
  EXPECT_EQ(probe.request, "GET /rooms/{path.id}/bookings?day={body#/day}");
  EXPECT_EQ(probe.happened, "answer.body#/items");
  EXPECT_THAT(probe.where, ElementsAre("day == {body#/day}", "hour == {body#/hour}"));
  EXPECT_EQ(probe.take, "ref");
  EXPECT_GE(probe.found, 9);
  EXPECT_TRUE(probe.IsSure(tool.identity));
}

TEST(SuggestSearchTest, ItIsAPolicyThatTheLoaderTakes) {
  Bookings bookings;
  for (int i = 0; i < 25; i += 3) bookings.List(i, Beside(i));
  Suggestion made = SuggestTools(bookings.traffic.seen, {});
  const std::string text = ToolsText(made);
  EXPECT_THAT(made.left_out, IsEmpty());
  EXPECT_THAT(text, HasSubstr("found what was made after "));
  const LoadedPolicy loaded = LoadPolicyText(
      "p", text + "mode: observe\nbackends: { shop: { url: \"http://127.0.0.1:1\" } }\n");
  ASSERT_TRUE(loaded.ok()) << loaded.problems.front().ToString() << "\n" << text;
  const Tool* const tool = loaded.policy->FindTool(bookings.Tool().name);
  ASSERT_NE(tool, nullptr);
  ASSERT_TRUE(tool->settle) << text;
  EXPECT_TRUE(tool->settle->search) << text;
}

// Nothing in the list says which hour it is.
TEST(SuggestSearchTest, ElementsThatLackAPartOfTheIdentityAreNoProof) {
  Bookings bookings;
  for (int i = 0; i < 25; i += 3) bookings.List(i, Beside(i), false);
  EXPECT_FALSE(bookings.Tool().links.probe);
}

TEST(SuggestSearchTest, TwoFindsAreFewAndThreeAreEnough) {
  Bookings bookings;
  bookings.List(21, {21, 23});
  EXPECT_FALSE(bookings.Tool().links.probe);
  bookings.List(1, {1, 3});
  EXPECT_TRUE(bookings.Tool().links.probe);
}

TEST(SuggestSearchTest, AListThatOftenLacksWhatWasMadeIsNoProbe) {
  Bookings bookings;
  bookings.List(0, Beside(0));
  for (const int i : {5, 10, 15}) bookings.List(i, {});
  EXPECT_FALSE(bookings.Tool().links.probe);
}

// What was taken back is not missed.
TEST(SuggestSearchTest, WhatWasDeletedBeforeIsNotMissed) {
  Bookings bookings;
  bookings.List(0, Beside(0));
  for (const int i : {5, 10, 15}) {
    for (const int gone : Beside(i)) {
      bookings.traffic.Call("DELETE", Bookings::Path(gone) + "/" + Bookings::Ref(gone), {}, {204});
    }
    bookings.List(i, {});
  }
  EXPECT_TRUE(bookings.Tool().links.probe);
}

// An element that another intent made, and that has the same values there.
TEST(SuggestSearchTest, ASearchThatWouldFindAnothersIsNone) {
  Bookings bookings;
  for (const int i : {0, 6, 12}) bookings.List(i, Beside(i));
  EXPECT_TRUE(bookings.Tool().links.probe);
  auto& answer = bookings.traffic.seen.back().answer;
  for (const std::string member : {"ref", "day", "hour"}) {
    SeenValue copy =
        *std::ranges::find(answer, "answer.body#/items/1/" + member, &SeenValue::place);
    copy.place = "answer.body#/items/3/" + member;
    if (member == "ref") copy.hash = SeenTraffic::HashOf("somebody's");
    answer.push_back(copy);
  }
  EXPECT_FALSE(bookings.Tool().links.probe) << "intent 12 was not repeated";
}

// The answer of its first attempt was lost, so nobody was told what that made.
TEST(SuggestSearchTest, WhatItsOwnRepeatMadeIsNotAnothers) {
  Bookings bookings;
  for (const int i : {0, 5, 10}) {
    std::vector<int> items = Beside(i);
    items.insert(items.begin(), i);
    bookings.List(i, items);
    bookings.traffic.seen.back().answer.front().hash = SeenTraffic::HashOf("lost " + N(i));
  }
  EXPECT_TRUE(bookings.Tool().links.probe);
}

// A question with a part that the call does not tell cannot be asked again.
TEST(SuggestSearchTest, AQuestionOfUnknownPartsIsNotAsked) {
  Bookings bookings;
  for (const int i : {0, 6, 12}) {
    bookings.List(i, Beside(i));
    bookings.traffic.seen.back().query.push_back(
        {"query.limit", SeenTraffic::HashOf("20"), ValueKind::kNumber});
  }
  EXPECT_FALSE(bookings.Tool().links.probe);
}

}  // namespace
}  // namespace recourse::suggest_search_test
