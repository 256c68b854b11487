// Lists of several ledgers that are read page by page, while ledgers go away and come back.
#include "proxy/console/list_query.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/api/query_params.h"
#include "proxy/console/page_cut.h"

namespace recourse::list_query_test {
namespace {

constexpr std::uint64_t kPageOfLedger = 100;  // where nobody says how much

std::string TextOf(const std::optional<Pairs>& query) {
  if (!query) return "nothing";
  std::string text;
  for (const auto& [name, value] : *query) {
    text.append(text.empty() ? "" : "&").append(name).append("=").append(value);
  }
  return text;
}

std::string Asked(std::string_view query, std::string_view ledger) {
  return TextOf(QueryForLedger(ParsePairs(query), ledger));
}

// Rows 1 to `rows` of one stream, as the admin API gives them.
struct Rows {
  std::string name;
  std::uint32_t stream = 0;
  std::uint64_t rows = 0;

  std::string Id(std::uint64_t row) const { return RowIdJson(PackRowId({stream, row})); }
  std::uint64_t RowOf(std::string_view text) const {
    std::uint64_t id = 0;
    EXPECT_TRUE(ParseId(text, id)) << name << " is asked for '" << text << "'";
    EXPECT_TRUE(id == 0 || UnpackRowId(id).stream == stream) << name << ": " << text;
    return UnpackRowId(id).number;
  }
  // Of what a query asks for: rows behind `after`, or the last ones up to `up_to`.
  LedgerAnswer Answer(const ListForm& form, const Pairs& query) const {
    constexpr std::uint64_t kOne = 1;
    std::uint64_t after = 0, up_to = rows, limit = kPageOfLedger;
    bool is_back = form.is_newest_first;
    for (const auto& [parameter, value] : query) {
      if (parameter == "limit" || parameter == "back") {
        EXPECT_TRUE(ParseNumber(value, limit) && limit > 0) << value;
      }
      is_back = (is_back || parameter == "back") && parameter != "after";
      if (parameter == "after") after = RowOf(value);
      if (parameter == "up_to") up_to = std::min(rows, RowOf(value));
      if (parameter == "before") up_to = std::min(rows, std::max(RowOf(value), kOne) - kOne);
    }
    const std::uint64_t first = is_back && up_to > limit ? up_to - limit + 1 : after + 1;
    const std::uint64_t last = is_back ? up_to : std::min(rows, after + limit);
    std::string list, older = "null", newer = last < rows ? Id(last) : "null";
    for (std::uint64_t row = first; row <= last; ++row) {
      const std::string one = "{\"" + std::string(form.id) + "\":" + Id(row) + ",\"" +
                              std::string(form.time) + "\":\"" +
                              std::to_string(1'000'000 + row / 2) + "\"}";
      list = form.is_newest_first ? one + (list.empty() ? "" : ",") + list
                                  : list + (list.empty() ? "" : ",") + one;
    }
    if (first > 1) older = Id(form.is_newest_first ? first : first - 1);
    const std::string cursors =
        form.is_newest_first
            ? R"(,"older":)" + older + R"(,"newer":)" + newer + R"(,"last":)" + Id(rows)
            : R"(,"next":)" + newer + (is_back ? R"(,"older":)" + older : std::string());
    const std::string page = "{\"" + std::string(form.list) + "\":[" + list + "]" + cursors + "}";
    auto json = ParseJson(page);
    EXPECT_TRUE(json) << page;
    return {.ledger = name, .json = json.value_or(Json())};
  }
};

// How a list is read: the parameter that goes on from `cursor` of the page before.
struct Way {
  std::string_view path, cursor, parameter, begin;
};
constexpr Way kReadings[] = {
    {admin_paths::kEvents, "next", "after", ""},
    {admin_paths::kEvents, "next", "after", "after=0"},
    {admin_paths::kApprovals, "next", "after", ""},
    {admin_paths::kFlows, "next", "after", "phase=OPEN"},
    {admin_paths::kEvents, "older", "up_to", "back=7"},
    {admin_paths::kOperations, "older", "before", ""},
    {admin_paths::kOperations, "newer", "after", "after=0"},
};

class Reader {
 public:
  Reader(const Way& reading, const std::vector<Rows>& ledgers)
      : reading_(reading), form_(*ListFormOf(reading.path)), ledgers_(ledgers) {}

  // Reads the next page, while those of `away` do not answer. False: it was the last one.
  bool Read(std::uint64_t limit, const std::set<std::string>& away) {
    Pairs query = ParsePairs(reading_.begin);
    if (place_) {
      std::erase_if(query, [&](const auto& pair) { return pair.first == reading_.parameter; });
      query.emplace_back(reading_.parameter, *place_);
    }
    if (limit > 0) query.emplace_back("limit", std::to_string(limit));
    std::vector<std::string_view> asked;
    std::vector<LedgerAnswer> answers;
    for (const Rows& ledger : ledgers_) {
      const auto own = QueryForLedger(query, ledger.name);
      if (!own) continue;
      asked.push_back(ledger.name);
      if (!away.contains(ledger.name)) answers.push_back(ledger.Answer(form_, *own));
    }
    CutPage(form_, query, answers);
    const std::string text =
        MergedPage(form_, answers, {}, PlacesOfAway(form_, query, asked, answers));
    const auto page = ParseJson(text);
    if (!page) return false;
    Take(*page->Find(form_.list), limit);
    place_ = ScalarText(*page, reading_.cursor);
    return !place_->empty();
  }

  // By ledger: the rows that were read, in the order in which they came.
  const std::vector<std::uint64_t>& read(const std::string& ledger) { return read_[ledger]; }
  bool is_in_order() const { return is_in_order_; }

 private:
  void Take(const Json& list, std::uint64_t limit) {
    if (limit > 0 && reading_.begin != "back=7") {
      EXPECT_LE(list.items.size(), limit);
    }
    std::string last;
    for (const Json& row : list.items) {
      const std::string id = ScalarText(row, form_.id), time = ScalarText(row, form_.time);
      const auto split = SplitLedgerId(id);
      ASSERT_TRUE(split) << id;
      EXPECT_EQ(split->ledger, ScalarText(row, "ledger"));
      read_[std::string(split->ledger)].push_back(
          UnpackRowId(ParseRowId(split->id).value_or(0)).number);
      EXPECT_TRUE(last.empty() || (form_.is_newest_first ? time <= last : time >= last));
      last = time;
    }
    if (!list.items.empty()) NoteTimes(list.items);
  }
  // Over pages too, as long as nobody was away meanwhile.
  void NoteTimes(const std::vector<Json>& rows) {
    const bool is_up = reading_.cursor == "next" || reading_.cursor == "newer";
    const std::string first = ScalarText(rows.front(), form_.time);
    const std::string last = ScalarText(rows.back(), form_.time);
    if (!last_.empty() && (is_up ? std::min(first, last) < last_ : std::max(first, last) > last_)) {
      is_in_order_ = false;
    }
    last_ = is_up ? std::max(first, last) : std::min(first, last);
  }

  bool is_in_order_ = true;
  std::string last_;  // time of what was read last
  const Way& reading_;
  const ListForm& form_;
  const std::vector<Rows>& ledgers_;
  std::optional<std::string> place_;
  std::map<std::string, std::vector<std::uint64_t>> read_;
};

// Each row once, and in one direction; `is_whole`: all of them.
void ExpectReadOnce(const Rows& ledger, std::vector<std::uint64_t> read, bool is_whole) {
  std::ranges::sort(read);
  EXPECT_EQ(std::ranges::adjacent_find(read), read.end()) << ledger.name << " has a row twice";
  if (is_whole) {
    EXPECT_EQ(read.size(), ledger.rows) << ledger.name;
  }
}

TEST(ListQueryTest, EachRowIsReadOnceWhateverTheLimitsAre) {
  const std::vector<std::vector<std::uint64_t>> sizes{{0},     {5},       {0, 0},         {7, 0},
                                                      {1, 30}, {3, 3, 3}, {0, 250, 1, 12}};
  for (const Way& reading : kReadings) {
    for (const auto& rows : sizes) {
      std::vector<Rows> ledgers;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        ledgers.push_back({std::string(1, static_cast<char>('d' - i)),
                           static_cast<std::uint32_t>(i % 2 * 42), rows[i]});
      }
      for (const std::uint64_t limit : {0U, 1U, 2U, 3U, 7U, 100U, 1'000U}) {
        Reader reader(reading, ledgers);
        int pages = 1;
        while (reader.Read(limit, {}) && pages < 400) ++pages;
        EXPECT_LT(pages, 400) << reading.path << " " << limit;
        EXPECT_TRUE(reader.is_in_order()) << reading.path << " " << reading.cursor << " " << limit;
        for (const Rows& ledger : ledgers) ExpectReadOnce(ledger, reader.read(ledger.name), true);
      }
    }
  }
}

TEST(ListQueryTest, ThousandsOfOneLedgerAndNoneOfAnother) {
  const std::vector<Rows> ledgers{{"asia", 0, 0}, {"eu", 42, 4'321}, {"us", 7, 3}};
  for (const Way& reading : kReadings) {
    Reader reader(reading, ledgers);
    int pages = 1;
    while (reader.Read(1'000, {}) && pages < 1'000) ++pages;
    for (const Rows& ledger : ledgers) ExpectReadOnce(ledger, reader.read(ledger.name), true);
    if (reading.begin != "back=7") {
      EXPECT_EQ(pages, 5) << reading.path;
    }
  }
}

// Who is there at the last page has told everything; who is not there then is said to be away.
TEST(ListQueryTest, EachRowIsReadOnceWhoeverIsAwayAndComesBack) {
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const Way& reading = kReadings[seed % std::size(kReadings)];
    std::vector<Rows> ledgers;
    for (std::uint64_t i = 0, most = 1 + random() % 4; i < most; ++i) {
      ledgers.push_back({std::string(1, static_cast<char>('a' + i)),
                         static_cast<std::uint32_t>(random() % 2 * (i + 1)),
                         random() % 3 == 0 ? random() % 3 : random() % 60});
    }
    Reader reader(reading, ledgers);
    std::set<std::string> away;
    bool goes_on = true;
    int pages = 0;
    for (; goes_on && pages < 500; ++pages) {
      away.clear();
      for (const Rows& ledger : ledgers) {
        if (random() % 3 == 0) away.insert(ledger.name);
      }
      goes_on = reader.Read(random() % 12, away);
    }
    EXPECT_LT(pages, 500);
    for (const Rows& ledger : ledgers) {
      ExpectReadOnce(ledger, reader.read(ledger.name), !away.contains(ledger.name));
    }
  }
}

TEST(ListQueryTest, AListOfNobodyEnds) {
  const std::vector<Rows> ledgers{{"eu", 0, 20}, {"us", 7, 20}};
  for (const Way& reading : kReadings) {
    Reader reader(reading, ledgers);
    EXPECT_FALSE(reader.Read(4, {"eu", "us"}));
    Reader alone(reading, ledgers);
    EXPECT_TRUE(alone.Read(4, {}));
    EXPECT_FALSE(alone.Read(4, {"eu", "us"})) << "nobody is there to go on";
  }
}

// All that is asked for may be of one of them.
TEST(ListQueryTest, EachLedgerIsAskedForAll) {
  EXPECT_EQ(Asked("limit=100&tool=a", "eu"), "limit=100&tool=a");
  EXPECT_EQ(Asked("limit=1", "eu"), "limit=1");
  EXPECT_EQ(Asked("limit=18446744073709551616", "eu"), "limit=18446744073709551616");
  EXPECT_EQ(Asked("limit=-4", "eu"), "limit=-4");
  EXPECT_EQ(Asked("limit=", "eu"), "limit=");
  EXPECT_EQ(Asked("", "eu"), "");
  EXPECT_EQ(Asked("tool=eu%3D1&value=us%3D4", "eu"), "tool=eu=1&value=us=4") << "of no cursor";
}

TEST(ListQueryTest, EachLedgerGoesOnFromItsOwnPlace) {
  for (const std::string name : {"after", "before", "up_to"}) {
    const std::string query = name + "=eu%3D42.17~us%3D7&tool=a";
    EXPECT_EQ(Asked(query, "eu"), name + "=42.17&tool=a");
    EXPECT_EQ(Asked(query, "us"), name + "=7&tool=a");
    EXPECT_EQ(Asked(query, "asia"), "nothing") << "it had no more";
    EXPECT_EQ(Asked(name + "=eu%3Dbegin", "eu"), "") << "it has not answered yet";
    EXPECT_EQ(Asked(name + "=0", "eu"), name + "=0");
  }
  EXPECT_EQ(Asked("follow=eu%3D1790000000000%3A42.17,43.5~us%3D7", "eu"),
            "follow=1790000000000:42.17,43.5");
  EXPECT_EQ(Asked("follow=eu%3D4", "us"), "follow=now");
  EXPECT_EQ(Asked("follow=now", "us"), "follow=now");
}

TEST(ListQueryTest, WhatIsNoCursorOverSeveralIsForEachToJudge) {
  for (const char* const text : {"17", "x", "eu", "eu=1~~us=2", "EU=1", "us:", ":1", "us:us:1"}) {
    EXPECT_EQ(TextOf(QueryForLedger({{"after", text}}, "eu")), std::string("after=") + text);
  }
}

TEST(ListQueryTest, WhoFollowsMissesNothingOfThoseWhoAreAway) {
  const auto answered = [](std::string_view ledger) {
    return LedgerAnswer{.ledger = ledger, .json = {}};
  };
  const Pairs query = ParsePairs("follow=eu%3D4~us%3D7.1");
  const FollowState both = FollowedOf(query, std::vector{answered("eu"), answered("us")});
  EXPECT_TRUE(both.kept.places.empty());
  EXPECT_FALSE(both.has_gap);
  const FollowState one = FollowedOf(query, std::vector{answered("us")});
  EXPECT_EQ(one.kept.cursor, "next");
  EXPECT_EQ(one.kept.places, (LedgerCursors{{"eu", "4"}}));
  EXPECT_FALSE(one.has_gap);
  const FollowState none = FollowedOf(query, {});
  EXPECT_EQ(none.kept.places, (LedgerCursors{{"eu", "4"}, {"us", "7.1"}}));
  EXPECT_FALSE(none.has_gap);
  // It was away when one began to follow: nobody knows what came since.
  const FollowState late = FollowedOf(query, std::vector{answered("asia"), answered("eu")});
  EXPECT_EQ(late.kept.places, (LedgerCursors{{"us", "7.1"}}));
  EXPECT_TRUE(late.has_gap);
  const FollowState begun = FollowedOf(ParsePairs("follow=now"), std::vector{answered("eu")});
  EXPECT_TRUE(begun.kept.places.empty());
  EXPECT_FALSE(begun.has_gap);
}

}  // namespace
}  // namespace recourse::list_query_test
