// One page of those of several ledgers.
#include "proxy/console/page_cut.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/admin/access/admin_paths.h"

namespace recourse::page_cut_test {
namespace {

LedgerAnswer Answer(std::string_view ledger, std::string_view page) {
  const auto json = ParseJson(page);
  EXPECT_TRUE(json) << page;
  return {.ledger = ledger, .json = json.value_or(Json())};
}

// "eu:1 us:2 | eu=1~us=2": the rows of the page, and the cursor.
std::string Cut(const char* path, std::string_view query, std::string_view cursor,
                std::vector<LedgerAnswer> answers) {
  const ListForm& form = *ListFormOf(path);
  CutPage(form, ParsePairs(query), answers);
  const auto page = ParseJson(MergedPage(form, answers, {}));
  if (!page) return "no page";
  std::string told;
  for (const Json& row : page->Find(form.list)->items) told += ScalarText(row, form.id) + " ";
  return told + "| " + ScalarText(*page, cursor);
}

std::vector<LedgerAnswer> TwoLogs() {
  return {Answer("a", R"({"events":[{"event_id":1,"time":"1"},{"event_id":2,"time":"4"},
                                    {"event_id":3,"time":"5"}],"next":3})"),
          Answer("b", R"({"events":[{"event_id":"7.1","time":"2"},{"event_id":"7.2","time":"3"},
                                    {"event_id":"7.3","time":"6"}],"next":"7.3"})")};
}

TEST(PageCutTest, ThoseThatAreReadFirstStandOnThePageAndTheOthersComeLater) {
  const auto page = [](std::string_view query) {
    return Cut(admin_paths::kEvents, query, "next", TwoLogs());
  };
  EXPECT_EQ(page("limit=3"), "a:1 b:7.1 b:7.2 | a=1~b=7.2");
  EXPECT_EQ(page("limit=4"), "a:1 b:7.1 b:7.2 a:2 | a=2~b=7.2");
  EXPECT_EQ(page("limit=1"), "a:1 | a=1~b=begin");
  EXPECT_EQ(page("limit=1&after=0"), "a:1 | a=1~b=0");
  EXPECT_EQ(page("limit=1&after=a%3D9~b%3D7.9"), "a:1 | a=1~b=7.9");
  // What comes after the last one of `a` is not known yet.
  EXPECT_EQ(page(""), "a:1 b:7.1 b:7.2 a:2 a:3 | a=3~b=7.2");
}

TEST(PageCutTest, OfAllFlowsTheNewestStandOnThePage) {
  const auto page = [](std::string_view query) {
    return Cut(admin_paths::kFlows, query, "next",
               {Answer("a", R"({"flows":[{"number":1,"began":"1"},{"number":2,"began":"4"}],
                                "next":null})"),
                Answer("b", R"({"flows":[{"number":3,"began":"2"},{"number":4,"began":"3"}],
                                "next":null})")});
  };
  EXPECT_EQ(page("all=true&limit=3"), "b:3 b:4 a:2 | ");
  EXPECT_EQ(page("limit=3"), "a:1 b:3 b:4 | a=1");
}

// A filter finds little in a long log.
TEST(PageCutTest, WhatIsNewestIsWaitedFor) {
  const char* const some = R"({"operations":[{"event_id":5,"time":"5"},{"event_id":3,"time":"3"}],
                               "older":2,"newer":null,"last":9})";
  const auto page = [&](std::string_view query, std::string_view other) {
    return Cut(admin_paths::kOperations, query, "older", {Answer("a", some), Answer("b", other)});
  };
  const char* const none = R"({"operations":[],"older":70,"newer":null,"last":99})";
  EXPECT_EQ(page("limit=9", none), "| a=begin~b=70");
  EXPECT_EQ(page("limit=9&before=a%3D8~b%3D71", none), "| a=8~b=70");
  EXPECT_EQ(page("limit=9&before=a%3D8~b%3D70", none), "a:5 a:3 | a=2~b=70")
      << "it does not go on, and hides no other";
  EXPECT_EQ(page("limit=9", R"({"operations":[{"event_id":4,"time":"4"}],"older":4})"),
            "a:5 b:4 | a=5~b=4");
}

TEST(PageCutTest, NonsenseOfOneLedgerHidesNoOther) {
  for (const char* const nonsense :
       {"{}", "null", "[]", R"({"events":null})", R"({"events":[],"next":"5~a=9"})",
        R"({"events":[],"next":7})", R"({"events":[],"next":""})"}) {
    std::vector<LedgerAnswer> answers = TwoLogs();
    answers.back() = Answer("b", nonsense);
    EXPECT_TRUE(Cut(admin_paths::kEvents, "limit=2", "next", answers).starts_with("a:1 a:2 | a=2"))
        << nonsense;
  }
  std::vector<LedgerAnswer> answers = TwoLogs();
  answers.back() = Answer("b", R"({"events":[null,7,{},{"time":"0"}],"next":4})");
  EXPECT_EQ(Cut(admin_paths::kEvents, "limit=2", "next", answers), "  | a=begin~b=4");
}

}  // namespace
}  // namespace recourse::page_cut_test
