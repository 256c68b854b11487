#include <gtest/gtest.h>

#include <string>

#include "policy/template/template.h"

namespace recourse::condition_test {
namespace {

Json Parsed(std::string_view text) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json) << text;
  return json ? *json : Json();
}

std::string Verdict(const std::string& condition, const CallValues& values) {
  const auto parsed = ParseCondition(condition);
  if (!parsed) return "unreadable";
  const auto result = Evaluate(*parsed, values);
  return !result ? "unknown" : *result ? "true" : "false";
}

TEST(ConditionTest, SelectorsAreReadOrRefused) {
  for (const char* good :
       {"body#/a/b", "body#", "body#/a~1b", "path.id", "query.q", "header.X-Name", "key",
        "external_ref", "answer.body#/id", "answer.header.Location", "answer.status",
        "request.body#/a", "request.path.id", "request.query.q", "request.header.X"}) {
    EXPECT_TRUE(ParseSelector(good)) << good;
  }
  for (const char* bad : {"",
                          "body",
                          "body.a",
                          "body/a",
                          "body#a",
                          "body#/a~2",
                          "path.",
                          "path",
                          "query.",
                          "header.",
                          "header.X Name",
                          "header.X:Y",
                          "answer",
                          "answer.body",
                          "answer.body/a",
                          "answer.header.",
                          "answer.status.x",
                          "env.SECRET",
                          "keys",
                          "request.key",
                          "request.answer.body#/id",
                          "request.external_ref",
                          "upper(body#/a)",
                          "body#/a | trim",
                          " key"}) {
    EXPECT_FALSE(ParseSelector(bad)) << bad;
  }
}

// What two readings of a number differ on is not known.
TEST(ConditionTest, NumbersCompareExactlyAsDecimals) {
  const Json body = Parsed(
      R"({"a": 120, "b": 0.30000000000000000001, "c": 9007199254740993, "n": -5, "z": -0.0,
          "big": 1e300, "small": 1e-300, "k": 1000})");
  CallValues values;
  values.body = &body;
  const std::pair<const char*, const char*> rows[] = {
      {"body#/a == 120", "true"},
      {"body#/a == 12e1", "true"},
      {"body#/a == 120.0", "true"},
      {"body#/a != 120", "false"},
      {"body#/a > 119.999999999999999999999", "unknown"},
      {"body#/a > 120", "false"},
      {"body#/a >= 120", "true"},
      {"body#/a < 1000", "true"},
      {"body#/a < 99", "false"},
      {"body#/b == 0.3", "unknown"},
      {"body#/b > 0.3", "unknown"},
      {"body#/c > 9007199254740992", "unknown"},
      {"body#/c == 9007199254740992", "unknown"},
      {"body#/c > 9007199254740000", "true"},
      {"body#/c == 9007199254740993", "true"},
      {"body#/n < 0", "true"},
      {"body#/n < -4", "true"},
      {"body#/n < -5", "false"},
      {"body#/n > -50", "true"},
      {"body#/n < 0.001", "true"},
      {"body#/z == 0", "true"},
      {"body#/z < 0", "false"},
      {"body#/z > -1", "true"},
      {"body#/z < 1e-300", "true"},
      {"body#/big > 1e299", "true"},
      {"body#/big < 2e300", "true"},
      {"body#/small > 0", "true"},
      {"body#/small < 1e-299", "true"},
      {"body#/k > 1000", "false"},
      {"body#/k > 999.9", "true"},
      {"body#/missing > 1", "unknown"},
      {"body#/a == \"120\"", "unknown"},
  };
  for (const auto& [condition, expected] : rows) {
    EXPECT_EQ(Verdict(condition, values), expected) << condition;
  }
}

TEST(ConditionTest, APlainNumberInAFormOrAQueryComparesAsOne) {
  const auto verdict = [](const std::string& text, const std::string& condition, bool is_form) {
    Json body;
    body.kind = Json::Kind::kObject;
    Json value;
    value.kind = Json::Kind::kString;
    value.text = text;
    body.members.emplace_back("n", value);
    const std::vector<std::pair<std::string, std::string>> query{{"n", text}};
    CallValues values;
    values.body = &body;
    values.body_is_form = is_form;
    values.query = &query;
    return Verdict(condition, values);
  };
  const std::tuple<const char*, const char*, const char*> rows[] = {
      {"1001", "> 1000", "true"},
      {"1000", "> 1000", "false"},
      {"1000.00", "== 1000", "true"},
      {"1000.00000000000000000001", "> 1000", "unknown"},
      {"999.99999999999999999999", ">= 1000", "unknown"},
      {"42.00000000000000000001", "== 42", "unknown"},
      {"9007199254740993", "> 9007199254740992", "unknown"},
      {"-5", "< 0", "true"},
      {"true", "== true", "true"},
      {"1001", "== \"1001\"", "true"},
      // Servers read these in more than one way.
      {"5000e-9", "> 1000", "unknown"},
      {"1e9", "> 1000", "unknown"},
      {"0100", "> 1000", "unknown"},
      {"0x7f", "> 1000", "unknown"},
      {" 5", "> 1000", "unknown"},
      {"+5", "> 1000", "unknown"},
      {"5,000", "> 1000", "unknown"},
      {"[5]", "> 1000", "unknown"},
      {"", "> 1000", "unknown"},
  };
  for (const auto& [text, rest, expected] : rows) {
    EXPECT_EQ(verdict(text, std::string("body#/n ") + rest, true), expected) << text;
    EXPECT_EQ(verdict(text, std::string("query.n ") + rest, false), expected) << text;
  }
  EXPECT_EQ(verdict("1001", "body#/n > 1000", false), "unknown") << "a text of JSON is none";
}

TEST(ConditionTest, OtherTypesCompareForEquality) {
  const Json body = Parsed(R"({"s": "paid", "t": true, "x": null, "o": {}, "l": [1]})");
  const Headers headers{{"X-Tier", "gold"}, {"X-Two", "1"}, {"x-two", "2"}};
  const std::vector<std::pair<std::string, std::string>> query{{"limit", "10"}, {"dry", "true"}};
  CallValues values;
  values.body = &body;
  values.headers = &headers;
  values.query = &query;
  const std::pair<const char*, const char*> rows[] = {
      {"body#/s == \"paid\"", "true"},
      {"body#/s != \"paid\"", "false"},
      {"body#/s == \"Paid\"", "false"},
      {"request.body#/s == \"paid\"", "true"},
      {"body#/t == true", "true"},
      {"body#/t != true", "false"},
      {"body#/t == false", "false"},
      {"body#/x == null", "true"},
      {"body#/s == null", "false"},
      {"body#/s != null", "true"},
      {"body#/o == null", "false"},
      {"body#/o == \"{}\"", "unknown"},
      {"body#/l/0 == 1", "true"},
      {"body#/s", "true"},
      {"body#/x", "true"},
      {"body#/y", "false"},
      {"body#/y == null", "unknown"},
      {"body#/t > 1", "unknown"},
      {"header.x-tier == \"gold\"", "true"},
      {"header.X-Two == \"1\"", "unknown"},
      {"query.limit > 9", "true"},
      {"query.limit == \"10\"", "true"},
      {"query.dry == true", "true"},
      {"  body#/s   ==   \"paid\"  ", "true"},
  };
  for (const auto& [condition, expected] : rows) {
    EXPECT_EQ(Verdict(condition, values), expected) << condition;
  }
}

TEST(ConditionTest, TheAnswerIsReadByStatusFieldAndBody) {
  const Json answer = Parsed(R"({"ok": true, "id": "ord_1"})");
  const Headers headers{{"Location", "/orders/1"}};
  CallValues values;
  values.answer_status = 201;
  values.answer_body = &answer;
  values.answer_headers = &headers;
  EXPECT_EQ(Verdict("answer.status == 201", values), "true");
  EXPECT_EQ(Verdict("answer.status < 300", values), "true");
  EXPECT_EQ(Verdict("answer.status >= 300", values), "false");
  EXPECT_EQ(Verdict("answer.body#/ok == true", values), "true");
  EXPECT_EQ(Verdict("answer.body#/id", values), "true");
  EXPECT_EQ(Verdict("answer.header.location", values), "true");
  EXPECT_EQ(Verdict("answer.status == 201", CallValues()), "unknown");
  EXPECT_EQ(Verdict("answer.body#/id", CallValues()), "false");
}

TEST(ConditionTest, UnreadableConditionsAreRefused) {
  for (const char* bad : {"", "body#/a =", "body#/a = 1", "body#/a ==", "body#/a == ", "body#/a==1",
                          "body#/a>1", "body#/a == paid", "body#/a > \"x\"", "body#/a < true",
                          "body#/a == [1]", "body#/a == {}", "1 < body#/a", "body#/a =~ \"x\"",
                          "body#/a == 1 and body#/b == 2", "a == 1", "body#/a == 01"}) {
    EXPECT_FALSE(ParseCondition(bad)) << bad;
  }
}

TEST(ConditionTest, StatusSetsHoldClassesSinglesAndRanges) {
  const auto set = ParseStatuses({"2xx", "404", "500-502"});
  ASSERT_TRUE(set);
  for (const int status : {200, 204, 299, 404, 500, 502}) EXPECT_TRUE(set->Contains(status));
  for (const int status : {199, 300, 403, 405, 499, 503}) EXPECT_FALSE(set->Contains(status));
  EXPECT_TRUE(ParseStatuses({})->empty());
  for (const char* bad : {"", "6xx", "0xx", "xx", "2x", "20", "099", "600", "404-400", "2xx-3xx",
                          "404-", "-404", "404 ", "+404", "abc"}) {
    EXPECT_FALSE(ParseStatuses({bad})) << bad;
  }
}

}  // namespace
}  // namespace recourse::condition_test
