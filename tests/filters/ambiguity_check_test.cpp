#include "filters/key/ambiguity_check.h"

#include <gtest/gtest.h>

namespace recourse::one_reading_test {
namespace {

constexpr char kJson[] = "application/json";
constexpr char kForm[] = "application/x-www-form-urlencoded";

Selector At(std::string_view text) {
  auto selector = ParseSelector(text);
  EXPECT_TRUE(selector) << text;
  return selector.value_or(Selector());
}

struct Case {
  std::vector<std::string> identity;
  std::string query;
  std::string type;
  std::string body;
  Headers headers;
};

// The status that the call gets, 0 when there is nothing against it.
int StatusOf(const Case& call, bool intent_is_named = false) {
  Tool tool;
  tool.name = "orders.create";
  for (const std::string& text : call.identity) tool.identity.push_back(At(text));
  HttpRequest request{"POST", "/orders", call.headers, call.body};
  if (!call.query.empty()) request.target += "?" + call.query;
  if (!call.type.empty()) request.headers.emplace_back("Content-Type", call.type);
  const auto body = ReadCallBody(request);
  if (!body) return FactsOf(body.error().code()).http_status;
  const auto objection = ObjectionTo(tool, request, *body, ParsePairs(call.query), intent_is_named);
  if (!objection) return 0;
  EXPECT_FALSE(objection->detail.empty());
  return FactsOf(objection->code).http_status;
}

TEST(OneReadingTest, P40_P41_AQueryValueThatThePolicyReadsIsThereOnceInOneSpelling) {
  for (const char* query : {"", "ref=1", "a=1&ref=2", "ref=%31", "x=1&x=2&ref=3", "refs=1&refs=2",
                            "filter[ref]=1&ref=2", "a=b;c&ref=1", "x[]=1&x[]=2&ref=1"}) {
    EXPECT_EQ(StatusOf({{"query.ref"}, query, "", "", {}}), 0) << query;
  }
  for (const char* query : {"ref=1&ref=2", "ref=1&ref=1", "ref=1&REF=2", "Ref=1", "ref[]=1",
                            "ref=1&ref[]=2", "ref=1&ref%5b%5d=2", "ref=1&ref[0]=2", "ref=1&%72ef=2",
                            "ref=1;ref=2", "a=1;ref=2", "ref=1;2", "ref=%zz", "ref=1&x=%"}) {
    EXPECT_EQ(StatusOf({{"query.ref"}, query, "", "", {}}), 400) << query;
    EXPECT_EQ(StatusOf({{}, query, "", "", {}}), 0) << query << ", which nobody reads";
  }
  EXPECT_EQ(StatusOf({{"query.filter[a]"}, "filter[a]=1&filter[b]=2", "", "", {}}), 0);
}

TEST(OneReadingTest, AFormFieldLikewise) {
  for (const char* body : {"ref=1", "a=1&a=2&ref=3", "a=b;c&ref=1"}) {
    EXPECT_EQ(StatusOf({{"body#/ref"}, "", kForm, body, {}}), 0) << body;
  }
  for (const char* body : {"ref=1&ref=2", "ref=1&Ref=2", "ref[]=1", "ref=1;ref=2"}) {
    EXPECT_EQ(StatusOf({{"body#/ref"}, "", kForm, body, {}}), 400) << body;
  }
}

TEST(OneReadingTest, AMemberThatThePolicyReadsHasNoTwinInAnotherCase) {
  for (const char* body :
       {R"({"to":{"id":1}})", R"({"To2":1,"to":{"id":1}})", R"({"to":{"id":1,"x":{"ID":2}}})",
        R"({"a":[{"ID":1}],"to":{"id":1}})", R"({"to":[1]})", R"({"to":null})", "{}"}) {
    EXPECT_EQ(StatusOf({{"body#/to/id"}, "", kJson, body, {}}), 0) << body;
  }
  for (const char* body : {R"({"to":{"id":1},"To":{"id":2}})", R"({"to":{"id":1,"ID":2}})",
                           R"({"TO":{"id":1}})", R"({"to":{"Id":1}})"}) {
    EXPECT_EQ(StatusOf({{"body#/to/id"}, "", kJson, body, {}}), 400) << body;
    EXPECT_EQ(StatusOf({{}, "", kJson, body, {}}), 0) << body << ", which nobody reads";
  }
  EXPECT_EQ(StatusOf({{"body#/a/0/id"}, "", kJson, R"({"a":[{"Id":1}]})", {}}), 400);
  EXPECT_EQ(StatusOf({{"body#/a~1b"}, "", kJson, R"({"a/b":1,"A/b":2})", {}}), 400);
}

TEST(OneReadingTest, ANameThatSomeReaderTakesForOneOfThePolicyIsRefused) {
  const std::vector<std::string> in_query{"query.dry_run"}, in_body{"body#/dry_run"};
  for (const char* pairs :
       {"dry.run=1", "dry+run=1", "dry%5Brun=1", "+dry_run=1", "dry_run%00x=1", "dry_run[x]=1",
        "dry_run=1&dry.run=0", "dryRun=1", "%EF%BD%84ry_run=1", "dry_run%E2%80%8B=1"}) {
    EXPECT_EQ(StatusOf({in_query, pairs, "", "", {}}), 400) << pairs;
    EXPECT_EQ(StatusOf({in_body, "", kForm, pairs, {}}), 400) << pairs;
    EXPECT_EQ(StatusOf({{}, pairs, kForm, pairs, {}}), 0) << pairs << ", which nobody reads";
  }
  for (const char* body : {R"({"dryRun":1})", R"({"dry_run":1,"dry_run\u0000":2})",
                           R"({"dry_run":1,"DRY_RUN":2})", R"({"__proto__":{"dry_run":1}})"}) {
    EXPECT_EQ(StatusOf({in_body, "", kJson, body, {}}), 400) << body;
    EXPECT_EQ(StatusOf({{}, "", kJson, body, {}}), 0) << body << ", which nobody reads";
  }
  EXPECT_EQ(StatusOf({{"body#/skip"}, "", kJson, "{\"\xc5\xbf\xe2\x84\xaaip\":1}", {}}), 400);
  EXPECT_EQ(StatusOf({in_body, "", kJson, R"({"_dry_run":1,"dry":2,"run":3,"dry_run":4})", {}}), 0);
}

TEST(OneReadingTest, AQueryAFormAndCookiesAreOneListToSomeServers) {
  constexpr char kParts[] = "multipart/form-data; boundary=xx";
  const std::string part =
      "--xx\r\nContent-Disposition: form-data; name='ref'\r\n\r\n1\r\n--xx--\r\n";
  const Headers cookie{{"Cookie", "a=b; ref=2"}};
  EXPECT_EQ(StatusOf({{"body#/ref"}, "ref=1", kForm, "ref=1", {}}), 400);
  EXPECT_EQ(StatusOf({{"body#/ref"}, "Ref=1", kForm, "a=1", {}}), 400);
  EXPECT_EQ(StatusOf({{"body#/ref"}, "ref=1", kJson, R"({"ref":1})", {}}), 400);
  EXPECT_EQ(StatusOf({{"body#/ref"}, "a=1;ref=2", kJson, R"({"ref":1})", {}}), 400);
  EXPECT_EQ(StatusOf({{"body#/ref"}, "a=1;ref=2", kForm, "a=1", {}}), 400);
  EXPECT_EQ(StatusOf({{"body#/ref"}, "a=1;b=2", kForm, "ref=1", {}}), 0);
  EXPECT_EQ(StatusOf({{"query.ref"}, "ref=1", kForm, "ref=1", {}}), 400);
  EXPECT_EQ(StatusOf({{"query.ref"}, "ref=1", kJson, R"({"ref":1})", {}}), 400);
  EXPECT_EQ(StatusOf({{"query.ref"}, "ref=1", kParts, part, {}}), 400);
  EXPECT_EQ(StatusOf({{"query.ref"}, "ref=1", kParts, "preamble\r\n" + part, {}}), 400);
  EXPECT_EQ(StatusOf({{"query.ref"}, "ref=1", kForm, "ref=2&a=%zz", {}}), 400);
  EXPECT_EQ(StatusOf({{"query.ref"}, "ref=1", kForm, "x", {{"Content-Encoding", "gzip"}}}), 400);
  EXPECT_EQ(StatusOf({{"query.ref"}, "ref=1", "text/plain", "ref=2", {}}), 0);
  EXPECT_EQ(StatusOf({{"query.ref"}, "ref=1", "", "", cookie}), 400);
  EXPECT_EQ(StatusOf({{"body#/ref"}, "", kForm, "ref=1", cookie}), 400);
  EXPECT_EQ(StatusOf({{"body#/ref"}, "q=1", kForm, "ref=1", {{"Cookie", "a=ref"}}}), 0);
  EXPECT_EQ(StatusOf({{"body#/ref"}, "", kJson, R"({"ref":1})", cookie}), 0);
  EXPECT_EQ(StatusOf({{}, "ref=1", kForm, "ref=1", cookie}), 0) << "which nobody reads";
}

TEST(OneReadingTest, AFormThatSplitsIntoVeryManyPairsIsNotLookedThrough) {
  const auto status = [](std::size_t pairs) {
    std::string body = "ref=1";
    for (std::size_t i = 1; i < pairs; ++i) body += ";a";
    return StatusOf({{"body#/other"}, "", kForm, body, {}});
  };
  EXPECT_EQ(status(limits::kFormPairsMax), 0);
  EXPECT_EQ(status(limits::kFormPairsMax + 1), 400);
}

// The parts of multipart whose lines these are, with this content each.
std::string Parts(const std::vector<std::string>& lines, const std::string& content = "1") {
  std::string body;
  for (const std::string& line : lines) body += "--xx\r\n" + line + "\r\n\r\n" + content + "\r\n";
  return body + "--xx--\r\n";
}

TEST(OneReadingTest, AValueOfMultipartIsTheTextOfOnePart) {
  constexpr char kParts[] = "multipart/form-data; boundary=xx";
  const std::vector<std::string> identity{"body#/ref"};
  const std::string disposition = "Content-Disposition: form-data; ";
  const std::string ref = disposition + "name=\"ref\"", other = disposition + "name=other";
  const std::string file = disposition + "name=\"file\"; filename=\"a\"";
  for (const auto& lines :
       std::vector<std::vector<std::string>>{{ref},
                                             {disposition + "name=ref"},
                                             {disposition + "name='ref'"},
                                             {disposition + "name*=utf-8''ref"},
                                             {ref, file, other, other},
                                             {other},
                                             {ref + "\r\nContent-Type: text/plain; charset=UTF-8"},
                                             {ref + "\r\nContent-Transfer-Encoding: 8bit"}}) {
    EXPECT_EQ(StatusOf({identity, "", kParts, Parts(lines), {}}), 0) << Parts(lines);
  }
  for (const auto& lines : std::vector<std::vector<std::string>>{
           {ref, ref},
           {ref, disposition + "name=\"Ref\""},
           {ref, disposition + "name='ref'"},
           {ref, disposition + "name=\"ref[]\""},
           {ref + "; name=\"a\""},
           {disposition + "name=\"a\"; name=ref"},
           {ref + "; filename=\"a\""},
           {ref + "; filename*=utf-8''a"},
           {ref + "\r\nContent-Type: application/json"},
           {ref + "\r\nContent-Type: text/plain; charset=utf-7"},
           {ref + "\r\nContent-Type: text/plain\r\nContent-Type: text/plain"},
           {ref + "\r\nContent-Transfer-Encoding: base64"},
           {ref + "\r\n" + other},
           {"Content-Disposition: attachment; name=\"ref\""}}) {
    EXPECT_EQ(StatusOf({identity, "", kParts, Parts(lines), {}}), 400) << Parts(lines);
    EXPECT_EQ(StatusOf({{}, "", kParts, Parts(lines), {}}), 0) << "which nobody reads";
  }
  // More than is looked at is not read at all.
  std::string names = disposition;
  for (std::size_t i = 0; i <= limits::kPartNamesMax; ++i) names += "name=a;";
  const std::string line = ref + "; x=" + std::string(limits::kPartLineBytesMax, 'x');
  for (const std::string& much : {names, line}) {
    EXPECT_EQ(StatusOf({identity, "", kParts, Parts({ref, much}), {}}), 415) << much;
  }
  const std::string charset = disposition + "name=\"_charset_\"";
  EXPECT_EQ(StatusOf({identity, "", kParts, Parts({ref, charset}, "utf-7"), {}}), 415);
  EXPECT_EQ(StatusOf({identity, "", kParts, Parts({ref, charset}, "utf-8"), {}}), 0);
  EXPECT_EQ(StatusOf({identity, "ref=1", kParts, Parts({ref}), {}}), 400);
  EXPECT_EQ(StatusOf({identity, "", kParts, Parts({ref}), {{"Cookie", "ref=2"}}}), 400);
  EXPECT_EQ(StatusOf({identity, "", kParts, "x\r\n" + Parts({ref}), {}}), 415) << "unread";
}

TEST(OneReadingTest, AFormThatThePolicyReadsIsInUtf8) {
  const std::vector<std::string> identity{"body#/ref"};
  const std::string type = std::string(kForm) + ";charset=";
  for (const char* charset : {"utf-8", "\"UTF-8\"", "us-ascii"}) {
    EXPECT_EQ(StatusOf({identity, "", type + charset, "ref=1", {}}), 0) << charset;
  }
  for (const char* charset :
       {"utf-7", "'utf-7'", "utf-16le", "ibm037", "latin1", "utf-8;charset=utf-7"}) {
    EXPECT_EQ(StatusOf({identity, "", type + charset, "ref=1", {}}), 415) << charset;
    EXPECT_EQ(StatusOf({{}, "", type + charset, "ref=1", {}}), 0) << charset;
  }
}

TEST(OneReadingTest, TheReasonNamesBoth) {
  Tool tool;
  tool.identity = {At("body#/dry_run")};
  const HttpRequest request{"POST", "/orders", {{"Content-Type", kForm}}, "dry.run%E2%80%8B=1"};
  const auto objection = ObjectionTo(tool, request, *ReadCallBody(request), {}, false);
  ASSERT_TRUE(objection);
  EXPECT_NE(objection->detail.find("body#/dry_run"), std::string::npos) << objection->detail;
  EXPECT_NE(objection->detail.find("'dry.run<U+200B>' in the form"), std::string::npos)
      << objection->detail;
}

TEST(OneReadingTest, AHeaderThatThePolicyReadsIsThereOnce) {
  EXPECT_EQ(StatusOf({{"header.X-Run"}, "", "", "", {{"X-Run", "1"}}}), 0);
  EXPECT_EQ(StatusOf({{"header.X-Run"}, "", "", "", {{"X-Run", "1"}, {"x-run", "1"}}}), 400);
  EXPECT_EQ(StatusOf({{"header.X-Run"}, "", "", "", {{"X-Run", "1"}, {"X_Run", "2"}}}), 400);
  EXPECT_EQ(StatusOf({{"header.X-Run"}, "", "", "", {{"X.Run", "2"}}}), 400);
}

TEST(OneReadingTest, M17_J22_ABodyThatThePolicyReadsIsThereAndReadable) {
  const std::vector<std::string> identity{"body#/ref"};
  EXPECT_EQ(StatusOf({identity, "", kJson, R"({"ref":1})", {}}), 0);
  EXPECT_EQ(StatusOf({identity, "", "", R"({"ref":1})", {}}), 415);
  EXPECT_EQ(StatusOf({identity, "", "text/plain", R"({"ref":1})", {}}), 415);
  EXPECT_EQ(StatusOf({identity, "", kForm, R"( {"ref":1})", {}}), 415) << "curl -d without a type";
  EXPECT_EQ(StatusOf({identity, "", kJson, "", {}}), 400);
  EXPECT_EQ(StatusOf({{}, "", "text/plain", "anything", {}}), 0);
  EXPECT_EQ(StatusOf({{}, "", kJson, "", {}}), 0);
  EXPECT_EQ(StatusOf({{"body#/ref", "query.q"}, "q=1", "", "", {}}), 0) << "the query names it";
}

// PHP reads a type up to a blank, and Tornado and ASP.NET what begins like a form.
TEST(OneReadingTest, WhatSomeServersTakeForAFormIsNotReadAsJson) {
  const std::vector<std::string> identity{"body#/ref"};
  const std::string both = R"({"ref":1,"x":"&ref=2&y="})", form = kForm;
  for (const std::string& type : {form + " x+json", form + "+json", form + "x+json",
                                  form + "\t+json", std::string("multipart/form-data+json"),
                                  std::string("text/plain x+json"), std::string("+json")}) {
    EXPECT_EQ(StatusOf({identity, "", type, both, {}}), 415) << type;
    EXPECT_EQ(StatusOf({{}, "", type, both, {}}), 0) << type;
  }
  for (const char* type : {"application/merge-patch+json", "Application/JSON ; a=b"}) {
    EXPECT_EQ(StatusOf({identity, "", type, both, {}}), 0) << type;
  }
}

// Some read JSON whatever the type says; Python's json knows marks, UTF-16 and UTF-32.
TEST(OneReadingTest, JsonThatCallsItselfAFormIsKnownBehindAMark) {
  const std::vector<std::string> identity{"body#/ref"};
  const std::string json = R"({"x":"&ref=1&y=","ref":2})";
  std::string wide;
  for (const char c : json) wide += std::string{'\0', c};
  for (const std::string& body : {"\xef\xbb\xbf" + json, wide, "\xfe\xff" + wide, "\xff\xfe" + wide,
                                  "\xef\xbb\xbf [" + json + "]"}) {
    EXPECT_EQ(StatusOf({identity, "", kForm, body, {}}), 415) << body;
  }
  EXPECT_EQ(StatusOf({identity,
                      "",
                      kForm,
                      "\xef\xbb\xbf"
                      "a=1&ref=1",
                      {}}),
            0);
}

TEST(OneReadingTest, AnEncodedBodyIsRefusedWhereTheKeyIsMadeOfIt) {
  const Headers gzip{{"Content-Encoding", "gzip"}};
  EXPECT_EQ(StatusOf({{"body#/ref"}, "", kJson, "\x1f\x8b", gzip}), 415);
  EXPECT_EQ(StatusOf({{"body#/ref"}, "", kJson, "\x1f\x8b", gzip}, true), 415);
  EXPECT_EQ(StatusOf({{}, "", kJson, "\x1f\x8b", gzip}), 415);
  EXPECT_EQ(StatusOf({{}, "", kJson, "\x1f\x8b", gzip}, true), 0) << "the agent named its intent";
  EXPECT_EQ(StatusOf({{"query.q"}, "q=1", kJson, "\x1f\x8b", gzip}), 0);
  EXPECT_EQ(StatusOf({{}, "", kJson, "{}", {{"Content-Encoding", "identity"}}}), 0);
}

TEST(OneReadingTest, EveryWordOfAToolThatReadsTheCallCounts) {
  const HttpRequest request{"POST", "/orders", {{"Content-Type", kJson}}, R"({"a":1,"A":2})"};
  const auto body = ReadCallBody(request);
  ASSERT_TRUE(body);
  const auto refused = [&](const Tool& tool) {
    return ObjectionTo(tool, request, *body, {}, false).has_value();
  };
  Tool tool;
  EXPECT_FALSE(refused(tool));
  tool.undo.emplace().request = *ParseRequestLine("DELETE /orders/{body#/a}");
  EXPECT_TRUE(refused(tool));
  tool = Tool();
  tool.settle = SettleRule{*ParseRequestLine("GET /orders?a={body#/a}"), At("answer.status"), {}};
  EXPECT_TRUE(refused(tool));
  tool = Tool();
  tool.approval.emplace().when = {*ParseCondition("body#/a > 1000")};
  EXPECT_TRUE(refused(tool));
  tool = Tool();
  tool.scope = {ScopeRule::Kind::kBody, "/a"};
  EXPECT_TRUE(refused(tool));
  tool = Tool();
  tool.ignore = {"/a"};
  EXPECT_TRUE(refused(tool));
}

}  // namespace
}  // namespace recourse::one_reading_test
