// What was there before a write, what it left, and what stands there now.
#include "policy/template/snapshot.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace recourse::snapshot_test {
namespace {

Snapshot State(std::string title, std::string version = {}) {
  return {.version = std::move(version), .places = {{"/title", std::move(title)}, {"/n", "1"}}};
}

TEST(SnapshotTest, AKeptPlaceIsReadWithWhatLiesInIt) {
  const Snapshot state{.places = {{"/a", R"({"b":[null,{"c":"x"}]})"}, {"/ab", "2"}}};
  EXPECT_EQ(KeptAt(state, "/a/b/1/c")->text, "x");
  EXPECT_EQ(KeptAt(state, "/a/b/0")->kind, Json::Kind::kNull);
  EXPECT_EQ(KeptAt(state, "/ab")->text, "2e0");
  EXPECT_FALSE(KeptAt(state, "/a/x"));
  EXPECT_FALSE(KeptAt(state, "/abc"));
  EXPECT_FALSE(KeptAt(state, ""));
  const Snapshot whole{.places = {{"", R"({"t":1})"}}};
  EXPECT_EQ(KeptAt(whole, "/t")->text, "1e0");
  EXPECT_EQ(KeptAt(whole, "")->kind, Json::Kind::kObject);
}

TEST(SnapshotTest, ValuesCountAndNotHowTheyAreWritten) {
  const Snapshot a{.places = {{"/a", R"({"x":1,"y":"é"})"}}};
  const Snapshot b{.places = {{"/a", R"({"y":"\u00e9","x":1.0})"}}};
  const Snapshot c{.places = {{"/a", R"({"x":2,"y":"é"})"}}};
  EXPECT_TRUE(HaveSamePlaces(a, b));
  EXPECT_FALSE(HaveSamePlaces(a, c));
  EXPECT_FALSE(HaveSamePlaces(a, {.is_gone = true}));
  EXPECT_TRUE(HaveSamePlaces({.is_gone = true}, {.is_gone = true}));
}

TEST(SnapshotTest, AVersionTellsWhatNoKeptPlaceShows) {
  const Snapshot before = State("1", "v1"), ours = State("2", "v2");
  EXPECT_EQ(DriftOf(before, ours, State("2", "v2")), Drift::kUnchanged);
  EXPECT_EQ(DriftOf(before, ours, State("2", "v3")), Drift::kChanged);
  EXPECT_EQ(DriftOf(before, ours, State("3", "v2")), Drift::kChanged);
  EXPECT_EQ(DriftOf(before, ours, State("1", "v3")), Drift::kRestored);
  EXPECT_EQ(DriftOf(before, State("2"), State("2", "v3")), Drift::kUnchanged);
  EXPECT_EQ(DriftOf(before, {.is_gone = true}, {.is_gone = true}), Drift::kUnchanged);
  EXPECT_EQ(DriftOf(before, {.is_gone = true}, State("1", "v4")), Drift::kRestored);
  EXPECT_EQ(DriftOf(before, {.is_gone = true}, State("3", "v4")), Drift::kChanged);
  EXPECT_EQ(DriftOf(before, ours, {.is_gone = true}), Drift::kChanged);
}

TEST(SnapshotTest, OnlyStrongTagsAreAskedFor) {
  EXPECT_TRUE(IsStrongTag("\"v1\""));
  EXPECT_FALSE(IsStrongTag("W/\"v1\""));
  EXPECT_FALSE(IsStrongTag("v1"));
  EXPECT_FALSE(IsStrongTag("\""));
  EXPECT_FALSE(IsStrongTag(R"("v2", "v9")"));
  EXPECT_FALSE(IsStrongTag(""));
}

// RFC 9110, section 8.8: what a server codes it may give another tag, or a weaker one.
TEST(SnapshotTest, TagsOfTwoCodingsAreComparedAsFarAsTheyTell) {
  using enum VersionMatch;
  struct Row {
    const char *a, *a_coding, *b, *b_coding;
    VersionMatch match;
  };
  const Row rows[] = {
      {R"("abc")", "", R"("abc")", "", kSame},
      {R"("abc")", "", R"("abd")", "identity", kOther},
      {R"(W/"abc")", "", R"("abc")", "", kSame},
      {R"(W/"abc")", "", R"(W/"abd")", "", kOther},
      {R"(W/"abc")", "gzip", R"("abc")", "", kSame},              // nginx
      {R"("abc-gzip")", "gzip", R"("abc")", "", kSame},           // Apache
      {R"("abc-gzip")", "x-GZIP", R"("abc")", "", kSame},         //
      {R"(W/"abc--gzip")", "gzip", R"("abc")", "", kSame},        // Jetty
      {R"("abc-gzip")", "gzip", R"("abd")", "", kOther},          //
      {R"("abc-gzip")", "gzip", R"("abc-br")", "br", kSame},      //
      {R"("abc-gzip")", "gzip", R"("abc-gzip")", "gzip", kSame},  //
      {R"("abc")", "gzip", R"("abc")", "", kUnknown},             // section 8.8.3.3
      {R"("123-b")", "gzip", R"("123-a")", "", kUnknown},         //
      {R"("123-b")", "gzip", R"("123-b")", "gzip", kSame},        //
      {R"("123-b")", "gzip", R"("124-b")", "gzip", kOther},       //
      {R"("gzip")", "gzip", R"("gzip")", "", kUnknown},           //
      {R"("abc-gzip")", "gzip, br", R"("abc")", "", kUnknown},    //
      {"7", "gzip", "7", "", kSame},
      {"7", "gzip", "8", "", kOther},
      {"a b", "", "a b", "", kSame},
      {R"("v2", "v9")", "", R"("v2")", "", kOther},  // two tags are none, and no coded one
      {R"("v2", "v9")", "gzip", R"("v9")", "", kOther},
      {R"(gzip "v2")", "", R"("v9")", "", kOther},
      {"", "", R"("abc")", "", kUnknown},
      {"", "", "", "", kUnknown},
  };
  for (const auto& [a, a_coding, b, b_coding, match] : rows) {
    const std::string one = VersionByTag(a, a_coding), other = VersionByTag(b, b_coding);
    EXPECT_EQ(MatchVersions(one, other), match) << one << ' ' << other;
    EXPECT_EQ(MatchVersions(other, one), match) << other << ' ' << one;
    EXPECT_EQ(TagOf(one), a);
  }
  const Snapshot before = State("1", "\"v1\""), ours = State("2", VersionByTag("\"x\"", "gzip"));
  EXPECT_EQ(DriftOf(before, ours, State("2", "\"v2\"")), Drift::kUnchanged);
  EXPECT_EQ(DriftOf(before, ours, State("3", "\"v2\"")), Drift::kChanged);
  EXPECT_EQ(DriftOf(before, ours, State("2", VersionByTag("\"y\"", "gzip"))), Drift::kChanged);
}

TEST(SnapshotTest, OnlyWhatIsCountedTellsThatOneWriteLiesBetween) {
  for (const auto& [earlier, later] : std::vector<std::pair<std::string, std::string>>{
           {"7", "8"},
           {"99", "100"},
           {"\"v9\"", "\"v10\""},
           {"W/\"3\"", "\"4\""},
           {"rev-1", "rev-2"},
           {VersionByTag("\"v1-gzip\"", "gzip"), "\"v2\""}}) {
    EXPECT_TRUE(IsNextVersion(earlier, later)) << earlier << ' ' << later;
    EXPECT_FALSE(IsNextVersion(later, earlier)) << earlier << ' ' << later;
    EXPECT_FALSE(IsNextVersion(earlier, earlier)) << earlier;
  }
  for (const auto& [earlier, later] : std::vector<std::pair<std::string, std::string>>{
           {"7", "9"},
           {"v7", "w8"},
           {"", "1"},
           {"7", ""},
           {"1764460800", "1764460801"},
           {"2026-11-30T10:00:01", "2026-11-30T10:00:02"},
           {"a1b7", "a1b8"},
           {"v1a", "v2a"},
           {VersionByTag("\"v1\"", "gzip"), "\"v2\""}}) {
    EXPECT_FALSE(IsNextVersion(earlier, later)) << earlier << ' ' << later;
  }
}

// Random writes, and random changes by somebody else after them, or none.
TEST(SnapshotTest, NoForeignChangeIsEverTakenForOurs) {
  std::mt19937 random(20261126);
  const auto draw = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most));
  };
  const auto value = [&] { return std::to_string(draw(4)); };
  for (int round = 0; round < 10'000; ++round) {
    const bool has_versions = draw(2) == 0;
    int clock = 0;
    const auto version = [&] { return has_versions ? std::to_string(++clock) : std::string(); };
    Snapshot before{.version = version(), .places = {{"/a", value()}, {"/b", value()}}};
    Snapshot ours = before;
    if (draw(5) == 0) {
      ours = {.is_gone = true};
    } else {
      ours.version = version();
      ours.places[static_cast<std::size_t>(draw(2))].second = value();
    }
    Snapshot now = ours;
    const bool is_foreign = draw(2) == 0;
    if (is_foreign) {
      now = draw(6) == 0
                ? Snapshot{.is_gone = true}
                : Snapshot{.version = version(), .places = {{"/a", value()}, {"/b", value()}}};
    }
    const Drift drift = DriftOf(before, ours, now);
    if (!is_foreign) EXPECT_EQ(drift, Drift::kUnchanged) << round;
    // Then restoring takes back nothing that is not ours.
    if (drift == Drift::kUnchanged) EXPECT_TRUE(HaveSamePlaces(ours, now)) << round;
    if (drift == Drift::kUnchanged && has_versions && is_foreign) {
      EXPECT_TRUE(now.is_gone && ours.is_gone) << round;
    }
    if (drift == Drift::kRestored) EXPECT_TRUE(HaveSamePlaces(before, now)) << round;
  }
}

}  // namespace
}  // namespace recourse::snapshot_test
