#include "proxy/console/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proxy/admin/access/admin_paths.h"

namespace recourse::merge_test {
namespace {

Json JsonOf(std::string_view text) {
  const auto json = ParseJson(text);
  EXPECT_TRUE(json) << text;
  return json.value_or(Json());
}

const ListForm& EventForm() { return *ListFormOf(admin_paths::kEvents); }
const ListForm& OperationForm() { return *ListFormOf(admin_paths::kOperations); }

LedgerAnswer Answer(std::string_view ledger, std::string_view page) {
  return {.ledger = ledger, .json = JsonOf(page)};
}

// The values of a member of all rows of a page, one after the other.
std::string Told(const Json& page, std::string_view list, std::string_view member) {
  std::string told;
  const Json* const rows = page.Find(list);
  EXPECT_TRUE(IsArray(rows)) << list;
  if (!IsArray(rows)) return told;
  for (const Json& row : rows->items) {
    told += (told.empty() ? "" : " ") + ScalarText(row, member);
  }
  return told;
}

Json Merged(const ListForm& form, const std::vector<LedgerAnswer>& answers,
            const KeptPlaces& kept = {}) {
  return JsonOf(MergedPage(form, answers, {}, kept));
}

TEST(MergeTest, RowsOfAllStandInTheOrderOfTheirTimes) {
  const std::vector<LedgerAnswer> answers{
      Answer("eu", R"({"events":[{"event_id":1,"time":"2026-01-01T00:00:01.000Z"},
                                 {"event_id":2,"time":"2026-01-01T00:00:04.000Z"}],"next":2})"),
      Answer("us", R"({"events":[{"event_id":"7.1","time":"2026-01-01T00:00:02.000Z"},
                                 {"event_id":"7.2","time":"2026-01-01T00:00:03.000Z"}],
                       "next":"7.2"})")};
  const Json page = Merged(EventForm(), answers);
  EXPECT_EQ(Told(page, "events", "event_id"), "eu:1 us:7.1 us:7.2 eu:2");
  EXPECT_EQ(Told(page, "events", "ledger"), "eu us us eu");
  EXPECT_EQ(ScalarText(page, "next"), "eu=2~us=7.2");
  EXPECT_EQ(page.Find("older"), nullptr);
}

TEST(MergeTest, OperationsAreNewestFirst) {
  const std::vector<LedgerAnswer> answers{
      Answer("eu", R"({"operations":[{"operation":4,"time":"d"},{"operation":1,"time":"a"}],
                       "older":1,"newer":null,"last":4})"),
      Answer("us", R"({"operations":[{"operation":3,"time":"c"},{"operation":2,"time":"b"}],
                       "older":null,"newer":9,"last":9})")};
  const Json page = Merged(OperationForm(), answers);
  EXPECT_EQ(Told(page, "operations", "operation"), "eu:4 us:3 us:2 eu:1");
  EXPECT_EQ(ScalarText(page, "older"), "eu=1");
  EXPECT_EQ(ScalarText(page, "newer"), "us=9");
  EXPECT_EQ(ScalarText(page, "last"), "eu=4~us=9");
  EXPECT_EQ(page.Find("next"), nullptr);
}

TEST(MergeTest, RowsOfTheSameTimeStandAsTheirLedgersDo) {
  for (const ListForm* const form : {&EventForm(), &OperationForm()}) {
    const std::string list(form->list);
    const std::vector<LedgerAnswer> answers{
        Answer("us", R"({")" + list + R"(":[{"event":1,"time":"t"},{"event":2,"time":"t"}]})"),
        Answer("eu", R"({")" + list + R"(":[{"event":1,"time":"t"},{"event":2,"time":"t"}]})")};
    EXPECT_EQ(Told(Merged(*form, answers), list, "event"), "us:1 us:2 eu:1 eu:2");
  }
}

// Its pods' clocks differ; what the log says stands.
TEST(MergeTest, RowsOfALedgerStayInItsOrderWhateverTheirTimes) {
  const std::vector<LedgerAnswer> answers{
      Answer("eu", R"({"events":[{"event_id":1,"time":"b"},{"event_id":2,"time":"a"},
                                 {"event_id":3},{"event_id":4,"time":"d"}]})"),
      Answer("us", R"({"events":[{"event_id":1},{"event_id":2,"time":"c"}]})")};
  EXPECT_EQ(Told(Merged(EventForm(), answers), "events", "event_id"),
            "us:1 eu:1 eu:2 eu:3 us:2 eu:4");
  const std::vector<LedgerAnswer> newest{
      Answer("eu", R"({"operations":[{"operation":4},{"operation":3,"time":"c"},
                                     {"operation":2,"time":"d"},{"operation":1,"time":"a"}]})"),
      Answer("us", R"({"operations":[{"operation":1,"time":"b"}]})")};
  EXPECT_EQ(Told(Merged(OperationForm(), newest), "operations", "operation"),
            "eu:3 eu:2 us:1 eu:1 eu:4");
}

TEST(MergeTest, EachListHasAFormAndNothingElseHas) {
  for (const auto& [path, list, time] : {std::tuple(admin_paths::kApprovals, "approvals", "asked"),
                                         {admin_paths::kEvents, "events", "time"},
                                         {admin_paths::kFlows, "flows", "began"},
                                         {admin_paths::kOperations, "operations", "time"}}) {
    const ListForm* const form = ListFormOf(path);
    ASSERT_NE(form, nullptr) << path;
    EXPECT_EQ(form->list, list);
    EXPECT_EQ(form->time, time);
    EXPECT_EQ(form->is_newest_first, form->path == admin_paths::kOperations);
  }
  for (const char* const path : {"", "/", "/status", "/event", "/events/", "/events/{id}"}) {
    EXPECT_EQ(ListFormOf(path), nullptr) << path;
  }
}

TEST(MergeTest, AListOfNobodyIsAnEmptyPageThatEnds) {
  EXPECT_EQ(MergedPage(EventForm(), {}, {}), R"({"events":[],"next":null,"ledgers":[]})");
  EXPECT_EQ(MergedPage(OperationForm(), {}, {}),
            R"({"operations":[],"last":0,"newer":null,"older":null,"ledgers":[]})");
  const std::vector<LedgerAnswer> empty{Answer("eu", R"({"events":[],"next":null})")};
  EXPECT_EQ(MergedPage(EventForm(), empty, {}), R"({"events":[],"next":null,"ledgers":[]})");
}

TEST(MergeTest, ThousandsOfOneLedgerAndNoneOfAnother) {
  std::string rows;
  for (int i = 1; i <= 5'000; ++i) {
    rows += (rows.empty() ? "" : ",") + std::string(R"({"event_id":)") + std::to_string(i) +
            R"(,"time":")" + std::to_string(100'000 + i / 3) + R"("})";
  }
  const std::vector<LedgerAnswer> answers{
      Answer("asia", R"({"events":[],"next":null})"),
      Answer("eu", R"({"events":[)" + rows + R"(],"next":5000})"),
      Answer("us", R"({"events":[{"event_id":1,"time":"100500"}],"next":null})")};
  const Json page = Merged(EventForm(), answers);
  ASSERT_EQ(page.Find("events")->items.size(), 5'001U);
  int last = 0;
  for (const Json& row : page.Find("events")->items) {
    if (ScalarText(row, "ledger") == "us") {
      EXPECT_EQ(last, 1'502);  // behind all of its time
      continue;
    }
    EXPECT_EQ(ScalarText(row, "event_id"), "eu:" + std::to_string(++last));
  }
  EXPECT_EQ(last, 5'000);
  EXPECT_EQ(ScalarText(page, "next"), "eu=5000");
}

TEST(MergeTest, NonsenseOfOneLedgerLeavesTheOthersAsTheyAre) {
  const std::string good = R"({"events":[{"event_id":1,"time":"b"},{"event_id":2,"time":"c"}],
                               "next":2})";
  for (const char* const nonsense :
       {"{}", "null", "[]", "7", R"("events")", R"({"events":null})", R"({"events":{}})",
        R"({"events":"a","next":[]})", R"({"events":[],"next":{"us":7}})",
        R"({"operations":[{"event_id":3}]})", R"({"events":[],"next":""})"}) {
    const std::vector<LedgerAnswer> answers{Answer("asia", nonsense), Answer("eu", good),
                                            Answer("us", nonsense)};
    const Json page = Merged(EventForm(), answers);
    EXPECT_EQ(Told(page, "events", "event_id"), "eu:1 eu:2") << nonsense;
    EXPECT_EQ(ScalarText(page, "next"), "eu=2") << nonsense;
  }
  const std::vector<LedgerAnswer> rows{
      Answer("asia", R"({"events":[null,1,"x",[],[{"event":3}],{},{"time":[]},{"time":7}]})"),
      Answer("eu", good)};
  const Json page = Merged(EventForm(), rows);
  EXPECT_EQ(page.Find("events")->items.size(), 10U);
  EXPECT_EQ(ScalarText(page.Find("events")->items.back(), "event_id"), "eu:2");
}

// A later one in the map would not be read: "eu" would say from where "us" goes on.
TEST(MergeTest, NoLedgerSaysFromWhereAnotherOneGoesOn) {
  for (const char* const forged : {"5~us=999", "~us=999", "5~", "~"}) {
    const std::vector<LedgerAnswer> answers{
        Answer("eu", R"({"events":[],"next":")" + std::string(forged) + R"("})"),
        Answer("us", R"({"events":[],"next":7})")};
    EXPECT_EQ(ScalarText(Merged(EventForm(), answers), "next"), "us=7") << forged;
  }
}

TEST(MergeTest, WhoseARowIsTheConsoleSays) {
  const std::vector<LedgerAnswer> answers{
      Answer("eu", R"({"events":[{"ledger":"us","event_id":1,"time":"a"},{"ledger":{}}]})")};
  EXPECT_EQ(MergedPage(EventForm(), answers, {}),
            R"({"events":[{"event_id":"eu:1","time":"a","ledger":"eu"},{"ledger":"eu"}],)"
            R"("next":null,"ledgers":[]})");
}

TEST(MergeTest, PlacesOfThoseWhoAreAwayAreKeptInTheirCursor) {
  const std::vector<LedgerAnswer> answers{
      Answer("eu", R"({"operations":[],"older":4,"newer":9,"last":9})")};
  const Json page = Merged(OperationForm(), answers, {.cursor = "older", .places = {{"us", "7"}}});
  EXPECT_EQ(ScalarText(page, "older"), "eu=4~us=7");
  EXPECT_EQ(ScalarText(page, "newer"), "eu=9");
  // What it says now counts.
  const Json both = Merged(OperationForm(), answers, {.cursor = "older", .places = {{"eu", "7"}}});
  EXPECT_EQ(ScalarText(both, "older"), "eu=4");
}

TEST(MergeTest, LinesAreRowsAndOneThatIsAboutThem) {
  LedgerAnswer eu = Answer("eu", R"({"next":"1790000000000:42.17,43.5","more":true})");
  eu.rows = {JsonOf(R"({"event_id":"42.17","time":"b"})")};
  LedgerAnswer us = Answer("us", R"({"next":7,"more":false,"gap":"no"})");
  us.rows = {JsonOf(R"({"event_id":6,"time":"a"})"), JsonOf(R"({"event_id":7,"time":"c"})")};
  const std::vector<LedgerAnswer> answers{eu, us};
  const std::vector<RemoteState> states{{.name = "eu", .state = "up"}};
  EXPECT_EQ(MergedLines(EventForm(), answers, states,
                        {.kept = {.cursor = "next", .places = {{"asia", "3"}}}, .has_gap = false}),
            R"({"event_id":"us:6","time":"a","ledger":"us"})"
            "\n"
            R"({"event_id":"eu:42.17","time":"b","ledger":"eu"})"
            "\n"
            R"({"event_id":"us:7","time":"c","ledger":"us"})"
            "\n"
            R"({"next":"asia=3~eu=1790000000000:42.17,43.5~us=7","more":true,)"
            R"("ledgers":[{"name":"eu","state":"up","roles":[]}]})"
            "\n");
}

TEST(MergeTest, AGapIsToldWhoeverHasIt) {
  const auto told = [](const char* tail, bool has_gap) {
    const std::vector<LedgerAnswer> answers{Answer("eu", tail)};
    return MergedLines(EventForm(), answers, {}, {.kept = {}, .has_gap = has_gap});
  };
  const std::string gap = R"({"next":"eu=1","gap":true,"ledgers":[]})" + std::string("\n");
  EXPECT_EQ(told(R"({"next":1,"gap":true})", false), gap);
  EXPECT_EQ(told(R"({"next":1})", true), gap);
  EXPECT_EQ(told(R"({"next":1,"gap":true})", true), gap);
  EXPECT_EQ(told(R"({"next":1,"gap":false,"more":1})", false),
            R"({"next":"eu=1","ledgers":[]})" + std::string("\n"));
}

TEST(MergeTest, ListsOfAllStandOneAfterTheOther) {
  const std::vector<LedgerAnswer> answers{
      Answer("eu", R"({"version":"1","tools":[{"name":"a","row":3}],"none":[]})"),
      Answer("asia", R"({"nothing":true})"),
      Answer("us", R"({"tools":[{"name":"a"},"b"],"rules":[{"example":4}],"none":{}})")};
  EXPECT_EQ(MergedLists(answers, {}),
            R"({"tools":[{"name":"a","row":"eu:3","ledger":"eu"},{"name":"a","ledger":"us"},"b"],)"
            R"("none":[],"rules":[{"example":"us:4","ledger":"us"}],"ledgers":[]})");
  EXPECT_EQ(MergedLists({}, {}), R"({"ledgers":[]})");
}

// Whichever of them stands first in the command line.
TEST(MergeTest, ALedgerWithoutListsHidesThoseOfNoOther) {
  for (const char* const first : {"{}", "[]", R"({"tools":7})", R"({"detail":"away"})"}) {
    const std::vector<LedgerAnswer> answers{Answer("asia", first),
                                            Answer("eu", R"({"tools":[{"name":"a"}]})")};
    EXPECT_EQ(MergedLists(answers, {}), R"({"tools":[{"name":"a","ledger":"eu"}],"ledgers":[]})")
        << first;
  }
}

TEST(MergeTest, NamesOfListsThatALedgerMakesUpStayNames) {
  const std::vector<LedgerAnswer> answers{
      Answer("eu", R"({"x\":[],\"ledgers\":[{\"name":[1],"ledgers":[{"name":"us","state":"up"}],
                       "\u00e9\n":[]})")};
  const std::vector<RemoteState> states{{.name = "us", .state = "away", .why = "it is off"}};
  const auto lists = ParseJson(MergedLists(answers, states));
  ASSERT_TRUE(lists) << MergedLists(answers, states);
  ASSERT_EQ(lists->members.size(), 3U);
  EXPECT_EQ(lists->members[0].first, R"(x":[],"ledgers":[{"name)");
  EXPECT_EQ(lists->members[1].first, "\u00e9\n");
  EXPECT_EQ(Told(*lists, "ledgers", "state"), "away");
}

TEST(MergeTest, AStateSaysWhyAndWhoOneIsThere) {
  const std::vector<RemoteState> states{
      {.name = "eu", .state = "up", .why = {}, .who = "ann", .roles = {"read", "approve"}},
      {.name = "us", .state = "away", .why = "\"no\" route"}};
  EXPECT_EQ(ObjectText([&](JsonObject& json) { WriteLedgers(json, states); }),
            R"({"ledgers":[{"name":"eu","state":"up","who":"ann","roles":["read","approve"]},)"
            R"({"name":"us","state":"away","why":"\"no\" route","roles":[]}]})");
}

TEST(MergeTest, AStatusIsTheSumOfAll) {
  const std::vector<LedgerAnswer> answers{
      Answer("eu", R"({"version":"1.2","state":"ready","mode":"enforce","started":"then",
                       "flows":{"open":1,"breaking":2,"parked":3,"stopped":4},
                       "approvals_pending":5,"ledger":{"uncertain":6},
                       "streams":[{"number":7,"pod":"a"}]})"),
      Answer("us", R"({"flows":{"open":"10","breaking":-1,"parked":1.5,"stopped":[]},
                       "approvals_pending":50,"ledger":7,"streams":[{"number":8}]})"),
      Answer("asia", R"({"flows":[],"approvals_pending":{},"ledger":{"uncertain":60}})")};
  const Json status = JsonOf(MergedStatus(answers, {}));
  const Json& flows = *status.Find("flows");
  EXPECT_EQ(ScalarText(flows, "open"), "11");
  EXPECT_EQ(ScalarText(flows, "breaking"), "2");
  EXPECT_EQ(ScalarText(flows, "parked"), "3");
  EXPECT_EQ(ScalarText(flows, "stopped"), "4");
  EXPECT_EQ(ScalarText(status, "approvals_pending"), "55");
  EXPECT_EQ(ScalarText(*status.Find("ledger"), "uncertain"), "66");
  EXPECT_EQ(Told(status, "streams", "number"), "eu:7 us:8");
  EXPECT_EQ(Told(status, "processes", "ledger"), "eu us asia");
  EXPECT_EQ(ScalarText(status.Find("processes")->items.front(), "mode"), "enforce");
  EXPECT_EQ(status.Find("processes")->items.back().members.size(), 1U);
}

TEST(MergeTest, AStatusSaysWhoseDatabaseIsAway) {
  const std::vector<LedgerAnswer> answers{
      Answer("eu", R"({"state":"ready","ledger":{"away":true,"counted":"then"}})"),
      Answer("us", R"({"state":"ready","ledger":{"away":false,"counted":"now"}})"),
      Answer("asia", R"({"state":"ready","ledger":{"away":[true]}})")};
  const Json status = JsonOf(MergedStatus(answers, {}));
  EXPECT_EQ(Told(status, "processes", "away"), "true  ");
  EXPECT_EQ(Told(status, "processes", "counted"), "then  ");
}

TEST(MergeTest, ANumberPastAllOthersHidesNoneOfThem) {
  const std::vector<LedgerAnswer> answers{
      Answer("eu", R"({"approvals_pending":18446744073709551615})"),
      Answer("us", R"({"approvals_pending":1})"),
      Answer("asia", R"({"approvals_pending":18446744073709551616})")};
  EXPECT_EQ(ScalarText(JsonOf(MergedStatus(answers, {})), "approvals_pending"),
            "18446744073709551615");
}

}  // namespace
}  // namespace recourse::merge_test
