#include "proxy/console/ledger_ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/row_id.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/api/openapi.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_object.h"

namespace recourse::ledger_ids_test {
namespace {

constexpr std::array<std::string_view, 18> kMembers = {
    "event",   "event_id", "example", "first",  "first_event",    "flow_number",
    "last",    "newer",    "next",    "number", "older",          "operation",
    "related", "repeat",   "row",     "step",   "undo_operation", "undoes"};

std::string OfLedger(std::string_view text, std::string_view ledger = "eu") {
  const auto json = ParseJson(text);
  EXPECT_TRUE(json) << text;
  std::string out;
  if (json) AppendOfLedger(out, *json, ledger);
  return out;
}

std::string Plain(std::string_view text) {
  std::string out;
  AppendPlainJson(out, ParseJson(text).value_or(Json()));
  return out;
}

std::string WithText(std::string_view name, std::string_view value) {
  std::string body;
  JsonObject(body).Text(name, value);
  return body;
}

TEST(LedgerIdsTest, EachIdHasTheNameOfItsLedgerAndLosesItAgain) {
  for (const std::string_view name : kMembers) {
    EXPECT_TRUE(IsIdMember(name)) << name;
    for (const std::string id : {"1", "17", R"("42.17")", "68719476735", R"("134217727.1")"}) {
      const std::string body = "{\"" + std::string(name) + "\":" + id + "}";
      const std::string told = OfLedger(body, "eu-2");
      EXPECT_EQ(told, "{\"" + std::string(name) + "\":\"eu-2:" + (id[0] == '"' ? "" : id + "\"") +
                          (id[0] == '"' ? id.substr(1) : "") + "}");
      EXPECT_EQ(LedgerOfBody(told), "eu-2");
      EXPECT_EQ(BodyForLedger(told), body);
    }
  }
}

TEST(LedgerIdsTest, WhatIsNoIdStaysAsItIs) {
  for (const char* const text : {R"({"event":0})",
                                 R"({"event":"0"})",
                                 R"({"event":null})",
                                 R"({"event":true})",
                                 R"({"event":""})",
                                 R"({"event":"x"})",
                                 R"({"event":-1})",
                                 R"({"event":"+1"})",
                                 R"({"event":" 1"})",
                                 R"({"event":"1 "})",
                                 R"({"event":"0.7"})",
                                 R"({"event":"07.1"})",
                                 R"({"event":"1.2.3"})",
                                 R"({"event":"134217728.1"})",
                                 R"({"event":"1."})",
                                 R"({"event":".1"})",
                                 R"({"event":"0x1"})",
                                 R"({"event":68719476736})",
                                 R"({"event":1e300})",
                                 R"({"event":"\u0661"})",
                                 R"({"event":"1\u0000"})",
                                 R"({"event":[],"last":{}})",
                                 R"({"id":1,"Event":2,"events":3,"event ":4,"":5})",
                                 R"(17)",
                                 R"("17")",
                                 R"([17,"42.17"])",
                                 R"(null)",
                                 R"({})"}) {
    EXPECT_EQ(OfLedger(text), Plain(text)) << text;
  }
  EXPECT_EQ(OfLedger(R"({"event":"1790000000000:42.17"})"), R"({"event":"1790000000000:42.17"})");
}

TEST(LedgerIdsTest, IdsAreFoundInListsAndObjectsOfAnyDepth) {
  EXPECT_EQ(OfLedger(R"({"related":[1,"2.3",[4,{"event":5,"other":6}],{"a":7}],"a":[8]})"),
            R"({"related":["eu:1","eu:2.3",["eu:4",{"event":"eu:5","other":6}],{"a":7}],"a":[8]})");
  EXPECT_EQ(OfLedger(R"([{"a":{"b":[{"step":1}]}},{"step":{"step":{"x":2,"row":3}}}])"),
            R"([{"a":{"b":[{"step":"eu:1"}]}},{"step":{"step":{"x":2,"row":"eu:3"}}}])");
  std::string deep = R"({"event":7})";
  for (int i = 0; i < 63; ++i) deep = i % 2 == 0 ? "[" + deep + "]" : R"({"a":)" + deep + "}";
  const std::string told = OfLedger(deep);
  EXPECT_NE(told.find(R"("eu:7")"), told.npos);
  EXPECT_EQ(LedgerOfBody(told), "eu");
  EXPECT_EQ(BodyForLedger(told), deep);
}

TEST(LedgerIdsTest, NumbersAsTheyAreWrittenInOtherWays) {
  EXPECT_EQ(OfLedger(R"({"event":1e2})"), R"({"event":"eu:100"})");
  EXPECT_EQ(OfLedger(R"({"event":7.0})"), R"({"event":"eu:7"})");
  // Of a stream that has one, an id is a text.
  EXPECT_EQ(BodyForLedger(R"({"event":"eu:007"})"), R"({"event":7})");
  EXPECT_EQ(BodyForLedger(R"({"event":"eu:0"})"), R"({"event":0})");
  EXPECT_EQ(BodyForLedger(R"({"event":"eu:5.0"})"), R"({"event":"5.0"})");
}

TEST(LedgerIdsTest, NamesAndTextsOfOthersStayTexts) {
  EXPECT_EQ(OfLedger(R"({"a\"b\\":"\u0001\"","\u00e9":[1.50,-2e70],"event\u0000":1,"event":1})"),
            R"({"a\"b\\":"\u0001\"",")"
            "\u00e9"
            R"(":[1.5,-2e70],"event\u0000":1,"event":"eu:1"})");
}

// Else an order about it would go to the other ledger.
TEST(LedgerIdsTest, NoLedgerGivesAnIdThatIsOfAnotherOne) {
  for (const std::string_view id : {"us:",
                                    ":1",
                                    "us:1",
                                    "us:42.17",
                                    "us:us:1",
                                    "eu:1",
                                    "us:0",
                                    "us:01",
                                    "us: 1",
                                    "US:1",
                                    "us%3A1",
                                    "us:1?ledger=us",
                                    "us:1&ledger=us",
                                    "us:1#",
                                    "us:1/approve",
                                    "../us:1",
                                    "us=1",
                                    "us=1~eu=2",
                                    "\xef\xbc\xb5s:1",
                                    "us\xef\xbc\x9a"
                                    "1",
                                    "us:\xd9\xa1",
                                    "us:1\n",
                                    "\nus:1"}) {
    for (const std::string_view name : kMembers) {
      const std::string told = OfLedger(WithText(name, id));
      EXPECT_EQ(LedgerOfBody(told).value_or("two"), "") << told;
      EXPECT_EQ(BodyForLedger(told), told) << "and it is no id there";
    }
  }
  const std::string huge(1 << 20, '7');
  EXPECT_EQ(OfLedger(WithText("event", huge)), WithText("event", huge));
}

TEST(LedgerIdsTest, AnIdIsANameAColonAndAnIdThere) {
  const std::string longest(32, 'a');
  for (const auto& [text, ledger, id] : std::vector<std::array<std::string, 3>>{
           {"eu:1", "eu", "1"},
           {"a:0", "a", "0"},
           {"eu-west-1:42.17", "eu-west-1", "42.17"},
           {"e-:007", "e-", "007"},
           {longest + ":68719476735", longest, "68719476735"}}) {
    const auto split = SplitLedgerId(text);
    ASSERT_TRUE(split) << text;
    EXPECT_EQ(split->ledger, ledger);
    EXPECT_EQ(split->id, id);
  }
  for (const std::string& text : std::vector<std::string>{"",
                                                          ":",
                                                          "1",
                                                          "eu",
                                                          "eu:",
                                                          ":1",
                                                          "1:1",
                                                          "-a:1",
                                                          "Eu:1",
                                                          "e_u:1",
                                                          "e u:1",
                                                          "eu::1",
                                                          "eu:eu:1",
                                                          "eu:-1",
                                                          "eu:+1",
                                                          "eu: 1",
                                                          "eu:1 ",
                                                          "eu:1:1",
                                                          "eu:1.",
                                                          "eu:.1",
                                                          "eu:0.1",
                                                          "eu:01.1",
                                                          "eu:x",
                                                          "eu:68719476736",
                                                          "eu:134217728.1",
                                                          "eu:18446744073709551617",
                                                          longest + "a:1",
                                                          std::string(100'000, 'a') + ":1",
                                                          "\xc3\xa9u:1",
                                                          "eu%3A1",
                                                          std::string("eu:1\0", 5),
                                                          std::string("eu\0:1", 5)}) {
    EXPECT_FALSE(SplitLedgerId(text)) << text.substr(0, 80);
    EXPECT_EQ(LedgerOfBody(WithText("event", text)).value_or("two"), "") << text.substr(0, 80);
  }
}

TEST(LedgerIdsTest, ABodyIsOfOneLedger) {
  EXPECT_EQ(LedgerOfBody(""), "");
  EXPECT_EQ(LedgerOfBody("{}"), "");
  EXPECT_EQ(LedgerOfBody(R"({"event":7,"reason":"us:1","a":["us:2"]})"), "") << "no ids";
  EXPECT_EQ(LedgerOfBody(R"({"event":7,"row":"eu:1","related":["eu:2","3"]})"), "eu");
  for (const char* const two :
       {R"({"event":"eu:1","row":"us:1"})", R"({"related":["eu:1","us:1","us:2"]})",
        R"([{"event":"eu:1"},{"a":[{"event":"us:1"}]},{"event":"eu:1"}])"}) {
    const auto ledger = LedgerOfBody(two);
    ASSERT_FALSE(ledger) << two;
    EXPECT_NE(ledger.error().find("two ledgers"), std::string::npos);
  }
  for (const char* const bad :
       {"{", "eu:1", R"({"event":"eu:1"} x)", R"({"event":"eu:1","event":"us:1"})", "\xff", " "}) {
    const auto ledger = LedgerOfBody(bad);
    ASSERT_FALSE(ledger) << bad;
    EXPECT_NE(ledger.error().find("no JSON"), std::string::npos);
  }
}

TEST(LedgerIdsTest, ABodyThatNamesNoIdGoesOnAsItCame) {
  for (const char* const body :
       {"", "{}", R"({"digest":"ab","body":"{\"event\": \"eu:1\"}","reason":"eu:1"})",
        R"({"event":7,"related":["3",0,null]})"}) {
    EXPECT_EQ(BodyForLedger(body), body);
  }
  EXPECT_EQ(BodyForLedger("{ not json"), "{ not json");
  EXPECT_EQ(BodyForLedger(R"({"event":"eu:42.17","related":["eu:3",{"row":"us:4"}],"a":"eu:5"})"),
            R"({"event":"42.17","related":[3,{"row":4}],"a":"eu:5"})");
}

TEST(LedgerIdsTest, AnIdSurvivesPathsAndQueries) {
  for (const std::string id : {"eu:1", "eu-2:42.17"}) {
    const std::string path = admin_paths::FillPlace(admin_paths::kApprove, id);
    const std::string_view place = admin_paths::PlaceIn(admin_paths::kApprove, path);
    std::string decoded;
    ASSERT_TRUE(PercentDecode(place, decoded));
    EXPECT_EQ(decoded, id);
    const auto split = SplitLedgerId(decoded);
    ASSERT_TRUE(split);
    EXPECT_EQ(std::string(split->ledger) + ":" + std::string(split->id), id);
    const Pairs query = ParsePairs("operation=" + PercentEncode(id));
    EXPECT_EQ(query.front().second, id);
  }
  for (const std::string_view name : {"after", "before", "up_to", "operation"}) {
    EXPECT_TRUE(IsIdParameter(name));
  }
  for (const std::string_view name :
       {"", "follow", "limit", "ledger", "After", "after ", "flow", "value", "trace", "event"}) {
    EXPECT_FALSE(IsIdParameter(name)) << name;
  }
}

TEST(LedgerIdsTest, ACursorHasAPlaceOfEachLedger) {
  for (const LedgerCursors& cursors : std::vector<LedgerCursors>{
           {{"eu", "17"}},
           {{"eu", "42.17"}, {"us", "7.9"}},
           {{"a", "1790000000000:42.17,43.5"}, {"b", "="}, {std::string(32, 'c'), "a=b"}}}) {
    EXPECT_EQ(ParseLedgerCursors(PrintLedgerCursors(cursors)), cursors);
    EXPECT_EQ(ParsePairs("after=" + PercentEncode(PrintLedgerCursors(cursors))).front().second,
              PrintLedgerCursors(cursors));
  }
  EXPECT_EQ(PrintLedgerCursors({{"us", "7"}, {"eu", "4"}}), "eu=4~us=7");
  EXPECT_EQ(PrintLedgerCursors({}), "");
  EXPECT_EQ(ParseLedgerCursors("eu=4~"), (LedgerCursors{{"eu", "4"}}));
  for (const std::string& text :
       std::vector<std::string>{"",           "~",       "0",           "17",
                                "42.17",      "eu",      "eu:1",        "now",
                                "=1",         "~eu=1",   "eu=1~~us=2",  "eu=1~us",
                                "Eu=1",       "1=1",     "e u=1",       std::string(33, 'a') + "=1",
                                "\xc3\xa9=1", "eu=1~=2", "eu=1&us=2~x", "1790000000000:42.17"}) {
    EXPECT_FALSE(ParseLedgerCursors(text)) << text;
  }
  const auto huge = ParseLedgerCursors("eu=" + std::string(1 << 20, '7'));
  ASSERT_TRUE(huge);
  EXPECT_EQ(huge->at("eu").size(), std::size_t{1} << 20);
}

// Anything that JSON can be, with ids here and there, as a ledger tells them.
class Made {
 public:
  explicit Made(std::uint64_t seed) : random_(seed) {}

  std::string Value(int depth, bool is_id) {
    const auto kind = random_() % (depth == 0 ? 4 : 6);
    if (is_id && kind < 3) return Id();
    switch (kind) {
      case 0:
        return std::to_string(random_() % 1'000);
      case 1:
        return R"("eu:)" + std::to_string(random_() % 9) + "x\"";
      case 2:
        return R"("a \"\\\u0007 b")";
      case 3:
        return random_() % 2 == 0 ? "null" : "false";
      case 4:
        return List(depth, is_id);
      default:
        return Object(depth);
    }
  }

 private:
  std::string Id() {
    const std::uint64_t number = 1 + random_() % kRowNumberMax;
    const auto stream = static_cast<std::uint32_t>(random_() % 2 * (random_() % kRowStreamMax));
    ++ids_;
    return RowIdJson(PackRowId({.stream = stream, .number = number}));
  }
  std::string List(int depth, bool is_id) {
    std::string list;
    for (auto left = random_() % 4; left > 0; --left) {
      list += (list.empty() ? "" : ",") + Value(depth - 1, is_id);
    }
    return "[" + list + "]";
  }
  std::string Object(int depth) {
    std::string object;
    std::set<std::string> names;
    for (auto left = random_() % 5; left > 0; --left) {
      const bool is_id = random_() % 2 == 0;
      const std::string name =
          is_id ? std::string(kMembers[random_() % kMembers.size()])
                : "n" + std::to_string(random_() % 9) + (random_() % 5 == 0 ? "\\n" : "");
      if (!names.insert(name).second) continue;
      object += (object.empty() ? "\"" : ",\"") + name + "\":" + Value(depth - 1, is_id);
    }
    return "{" + object + "}";
  }

  std::mt19937_64 random_;

 public:
  int ids_ = 0;
};

TEST(LedgerIdsTest, WhateverALedgerTellsItUnderstandsAgain) {
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Made made(seed);
    const std::string own = Plain(made.Value(5, false));
    const std::string told = OfLedger(own);
    EXPECT_EQ(LedgerOfBody(told), made.ids_ > 0 ? "eu" : "");
    EXPECT_EQ(BodyForLedger(told), own);
    EXPECT_EQ(OfLedger(own, "us").size(), told.size());
  }
}

// Whether a schema is that of an id, or of a list of some.
bool IsOfIds(const Json& schema) {
  if (ScalarText(schema, "$ref").ends_with("/Id")) return true;
  if (std::ranges::any_of(schema.items, IsOfIds)) return true;
  return std::ranges::any_of(schema.members, [](const Json::Member& member) {
    return member.first != "properties" && IsOfIds(member.second);
  });
}

// What openapi.json says of the members of each name.
void CollectMembers(const Json& schema, std::set<std::string>& ids, std::set<std::string>& others) {
  for (const Json& item : schema.items) CollectMembers(item, ids, others);
  for (const auto& [name, value] : schema.members) {
    CollectMembers(value, ids, others);
    if (name != "properties") continue;
    for (const auto& [member, said] : value.members) {
      (IsOfIds(said) ? ids : others).insert(member);
    }
  }
}

TEST(LedgerIdsTest, MembersOfTheirNamesAreIdsInEveryAnswer) {
  const auto document = ParseJson(OpenApiDocument());
  ASSERT_TRUE(document);
  std::set<std::string> ids, others;
  for (const auto& [schema, said] : AtPointer(*document, "/components/schemas")->members) {
    const bool is_served = schema != "ChainRow" && schema != "StreamMessage";  // at a console
    if (is_served) CollectMembers(said, ids, others);
  }
  for (const std::string_view name : kMembers) EXPECT_TRUE(ids.contains(std::string(name))) << name;
  // Of the log as a whole: no request takes them.
  for (const std::string name : {"first_id", "last_id", "bad_row"}) ids.erase(name);
  for (const std::string& name : ids) EXPECT_TRUE(IsIdMember(name)) << name;
  // Of who follows it is a place, which is no id.
  others.erase("next");
  for (const std::string& name : others) EXPECT_FALSE(IsIdMember(name)) << name;
  // Names of counts, as the report has them.
  for (int i = 0; i < kObserveVerdictCount; ++i) {
    EXPECT_FALSE(IsIdMember(NameOf(static_cast<ObserveVerdict>(i))));
  }
  for (int i = 0; i < kPhaseCount; ++i) EXPECT_FALSE(IsIdMember(NameOf(static_cast<Phase>(i))));
}

TEST(LedgerIdsTest, APlaceInSeveralLedgersIsNamedByEachOfThem) {
  for (const char* const place : {"eu=42.17", "eu=42.17~us=7", "eu=begin~us=7.9", "eu=~us=7"}) {
    EXPECT_TRUE(IsPlaceInLedgers(place)) << place;
  }
  for (const char* const other : {"", "~", "eu", "eu~us", "eu:42.17", "EU=1", "eu=1~", "=1"}) {
    EXPECT_FALSE(IsPlaceInLedgers(other)) << other;
  }
}

}  // namespace
}  // namespace recourse::ledger_ids_test
