// What a list proves about a write that it is searched for.
#include "filters/settle/search.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace recourse::search_test {
namespace {

SettleRule Rule(int pages = 1) {
  SettleRule rule;
  rule.happened = ParseSelector("answer.body#/data").value();
  SearchRule search;
  search.where.push_back({"/meta/key", {}, "meta/key == {key}"});
  search.take = "/id";
  search.pages = pages;
  if (pages > 1) search.next = ParseSelector("answer.header.Link").value();
  rule.search = search;
  return rule;
}

Backend Bank() {
  Backend backend;
  backend.scheme = "https";
  backend.authority = "bank.test";
  backend.base_path = "/v1";
  return backend;
}

Answer Says(const std::string& body, const std::string& link = "", int status = 200) {
  Answer answer;
  answer.response.status = status;
  answer.response.headers = {{"Content-Type", "application/json"}};
  if (!link.empty()) answer.response.headers.emplace_back("Link", link);
  answer.response.body = body;
  answer.body_complete = true;
  return answer;
}

ProbeReading Read(const SettleRule& rule, const std::vector<Answer>& pages) {
  Search search;
  search.wanted = {"k1"};
  Result<Answer> last = std::unexpected(Error());
  std::optional<HttpRequest> request = HttpRequest{"GET", "/v1/list?a=1", {}, ""};
  for (const Answer& page : pages) {
    EXPECT_TRUE(request.has_value());
    last = page;
    request = TakePage(rule, Bank(), *request, last, search);
  }
  return JudgeSearch(rule, search, last);
}
ProbeVerdict Verdict(const std::string& body) { return Read(Rule(), {Says(body)}).verdict; }

TEST(SearchTest, OneMatchIsTheEffect) {
  const auto found = Read(Rule(), {Says(R"({"data":[{"id":"a","meta":{"key":"k0"}},
                                                   {"id":"b","meta":{"key":"k1"}}]})")});
  EXPECT_EQ(found.verdict, ProbeVerdict::kPresent);
  EXPECT_EQ(found.external_ref, "b");
}

// An API that answers with the thing itself where others have a list.
TEST(SearchTest, ASingleThingIsAnElement) {
  const auto found = Read(Rule(), {Says(R"({"data":{"id":"b","meta":{"key":"k1"}}})")});
  EXPECT_EQ(found.verdict, ProbeVerdict::kPresent);
  EXPECT_EQ(found.external_ref, "b");
  SettleRule whole = Rule();
  whole.happened = ParseSelector("answer.body#").value();
  EXPECT_EQ(Read(whole, {Says(R"({"id":7,"meta":{"key":"k1"}})")}).external_ref, "7");
  // Another one stands there: ours may have stood there before.
  for (const char* body : {R"({"data":{"id":"a","meta":{"key":"k0"}}})", R"({"data":{}})",
                           R"({"data":{"id":"b","meta":{"key":"k1"}},"error":"busy"})"}) {
    EXPECT_EQ(Verdict(body), ProbeVerdict::kNothing) << body;
  }
  SettleRule said = Rule();
  said.absent = {*ParseCondition("answer.body#/data/meta/key == \"none\"")};
  EXPECT_EQ(Read(said, {Says(R"({"data":{"id":"a","meta":{"key":"none"}}})")}).verdict,
            ProbeVerdict::kAbsent);
}

TEST(SearchTest, WhatCannotBeToldIsNothing) {
  using enum ProbeVerdict;
  EXPECT_EQ(Verdict(R"({"data":[]})"), kAbsent);
  EXPECT_EQ(Verdict(R"({"data":[{"id":"a","meta":{}}]})"), kAbsent);
  const char* const nothing[] = {
      R"({"data":[{"id":"a"}]})",  // the place is in none of them: it would never match
      R"({"data":[{"id":"a","meta":{"key":"k1"}},{"id":"b","meta":{"key":"k1"}}]})",
      R"({"data":[{"id":"a","meta":{}}],"has_more":true})",
      R"({"data":null})",
      R"({"items":[]})",
      R"({"data":[],"error":"busy"})",
      "no JSON"};
  for (const char* body : nothing) EXPECT_EQ(Verdict(body), kNothing) << body;
  EXPECT_EQ(Read(Rule(), {Says(R"({"data":[]})", "", 500)}).verdict, kNothing);
  EXPECT_EQ(Read(Rule(), {Says(R"({"error":"no list"})", "", 404)}).verdict, kAbsent);
  Answer cut = Says(R"({"data":[]})");
  cut.body_complete = false;
  EXPECT_EQ(Read(Rule(), {cut}).verdict, kNothing);
}

TEST(SearchTest, PagesAreReadToTheirEnd) {
  using enum ProbeVerdict;
  const std::string other = R"({"data":[{"id":"a","meta":{"key":"k0"}}]})";
  const std::string mine = R"({"data":[{"id":"b","meta":{"key":"k1"}}]})";
  const std::string next = "</v1/list?page=2>; rel=\"next\", </v1/list?page=9>; rel=\"last\"";
  EXPECT_EQ(Read(Rule(3), {Says(other, next), Says(mine)}).external_ref, "b");
  EXPECT_EQ(Read(Rule(3), {Says(other, next), Says(other)}).verdict, kAbsent);
  const std::string twin = R"({"data":[{"id":"c","meta":{"key":"k1"}}]})";
  EXPECT_EQ(Read(Rule(3), {Says(mine, next), Says(twin)}).verdict, kNothing) << "two of them";
  const std::string other_twin = R"({"data":[{"id":"b","meta":{"key":"k1"},"x":1}]})";
  EXPECT_EQ(Read(Rule(3), {Says(mine, next), Says(other_twin)}).verdict, kNothing) << "two of them";
  // What is added meanwhile pushes it onto the next page.
  EXPECT_EQ(Read(Rule(3), {Says(mine, next), Says(mine)}).external_ref, "b");
  EXPECT_EQ(Read(Rule(2), {Says(other, next), Says(other, next)}).verdict, kNothing) << "no end";
  EXPECT_EQ(Read(Rule(2), {Says(other, next), Says("", "", 503)}).verdict, kNothing);
}

// Whatever the place is called where the answer says that something follows.
TEST(SearchTest, WhatIsNotReadToItsEndIsNotAbsent) {
  using enum ProbeVerdict;
  const auto read = [](const std::string& place, const std::vector<Answer>& pages) {
    SettleRule rule = Rule(2);
    rule.search->next = ParseSelector(place).value();
    rule.search->cursor = ParseRequestPlace("query.from").value();
    return Read(rule, pages).verdict;
  };
  const auto page = [](const std::string& follows) {
    return Says(R"({"data":[{"id":"a","meta":{"key":"k0"}}],"page":{"after":)" + follows + "}}");
  };
  const std::string place = "answer.body#/page/after";
  for (const char* more : {"\"c2\"", "7", "true", R"({"id":"c2"})", R"(["c2"])"}) {
    EXPECT_EQ(read(place, {page("\"c1\""), page(more)}), kNothing) << more;
  }
  for (const char* end : {"\"\"", "null", "false", "{}", "[]"}) {
    EXPECT_EQ(read(place, {page("\"c1\""), page(end)}), kAbsent) << end;
    EXPECT_EQ(read(place, {page(end)}), kAbsent) << end;
  }
  // A link that is not followed.
  SettleRule rule = Rule(3);
  rule.search->next = ParseSelector(place).value();
  EXPECT_EQ(Read(rule, {page("\"https://evil.test/v1/list\"")}).verdict, kNothing);
}

TEST(SearchTest, APageThatComesAgainEndsTheSearch) {
  SettleRule rule = Rule(20);
  rule.search->next = ParseSelector("answer.body#/after").value();
  for (const char* const place : {"query.from", "body#/from"}) {
    rule.search->cursor = ParseRequestPlace(place).value();
    Search search;
    search.wanted = {"k1"};
    std::optional<HttpRequest> request = HttpRequest{"POST", "/v1/list", {}, "{}"};
    const Answer page = Says(R"({"data":[{"id":"b","meta":{"key":"k1"}}],"after":"c1"})");
    int pages = 0;
    for (; request; ++pages) request = TakePage(rule, Bank(), *request, page, search);
    EXPECT_EQ(pages, 2) << place;
    EXPECT_EQ(JudgeSearch(rule, search, page).external_ref, "b");
    search.wanted = {"k2"};
  }
}

// Servers write what they were given in their own way.
TEST(SearchTest, WhatIsWrittenOtherwiseIsNotAbsent) {
  using enum ProbeVerdict;
  const auto read = [](const std::string& wanted, const std::string& there) {
    const SettleRule rule = Rule();
    Search search;
    search.wanted = {wanted};
    const Answer page = Says(R"({"data":[{"id":"b","meta":{"key":)" + there + "}}]}");
    (void)TakePage(rule, Bank(), {"GET", "/v1/list", {}, ""}, page, search);
    return JudgeSearch(rule, search, page).verdict;
  };
  EXPECT_EQ(read("100", "1e2"), kPresent);
  EXPECT_EQ(read("9007199254740993", "9007199254740993"), kPresent);
  EXPECT_EQ(read("9007199254740993", "9007199254740992"), kAbsent);
  EXPECT_EQ(read("10", "\"11\""), kAbsent);
  EXPECT_EQ(read("a", "null"), kAbsent);
  EXPECT_EQ(read("Bob@Shop.test", "\"bob@shop.test\""), kNothing) << "another case";
  EXPECT_EQ(read(" a  b", "\"a b\""), kNothing) << "other blanks";
  EXPECT_EQ(read("caf\xC3\xA9 1", "\"cafe\xCC\x81 1\""), kNothing) << "another normal form";
  EXPECT_EQ(read("10", "\"10.00\""), kNothing) << "another form of the number";
  EXPECT_EQ(read("a", R"(["a"])"), kNothing) << "a list never is a text";
  EXPECT_EQ(read("a", R"({"value":"a"})"), kNothing);
}

TEST(SearchTest, ALinkOfAPostStaysAtItsPath) {
  const auto follows = [](const char* method, const char* link) {
    Search search;
    search.wanted = {"k1"};
    return TakePage(Rule(3), Bank(), {method, "/v1/search?p=1", {}, "{}"},
                    Says(R"({"data":[]})", link), search)
        .has_value();
  };
  EXPECT_TRUE(follows("GET", "</v1/lists/7?p=2>; rel=next"));
  EXPECT_TRUE(follows("POST", "</v1/search?p=2>; rel=next"));
  EXPECT_FALSE(follows("POST", "</v1/orders>; rel=next")) << "that may be a write";
}

TEST(SearchTest, ALinkLeadsNowhereElse) {
  Search search;
  search.wanted = {"k1"};
  const HttpRequest asked{"GET", "/v1/list", {}, ""};
  const auto target = [&](const std::string& link) {
    search = Search();
    search.wanted = {"k1"};
    const auto request = TakePage(Rule(3), Bank(), asked, Says(R"({"data":[]})", link), search);
    return request ? request->target : std::string();
  };
  EXPECT_EQ(target("<https://bank.test/v1/list?p=2>; rel=next"), "/v1/list?p=2");
  for (const char* bad : {"<https://evil.test/v1/list>; rel=next", "<//evil.test/v1>; rel=next",
                          "</v2/list>; rel=next", "</v1/../admin>; rel=next",
                          "</v1/list>; rel=prev", "</v1/l ist>; rel=next", "<?p=2>; rel=next"}) {
    EXPECT_EQ(target(bad), "") << bad;
  }
}

TEST(SearchTest, ACursorGoesIntoItsPlace) {
  SettleRule rule = Rule(3);
  rule.search->next = ParseSelector("answer.body#/cursor").value();
  const auto next = [&](const char* place, const HttpRequest& asked) {
    rule.search->cursor = ParseRequestPlace(place).value();
    Search search;
    search.wanted = {"k1"};
    return TakePage(rule, Bank(), asked, Says(R"({"data":[],"cursor":"c 2"})"), search).value();
  };
  EXPECT_EQ(next("query.cursor", {"GET", "/v1/list", {}, ""}).target, "/v1/list?cursor=c%202");
  EXPECT_EQ(next("query.cursor", {"GET", "/v1/list?cursor=1&a=b", {}, ""}).target,
            "/v1/list?a=b&cursor=c%202");
  EXPECT_EQ(next("body#/cursor", {"POST", "/v1/s", {}, R"({"q":1})"}).body,
            R"({"cursor":"c 2","q":1})");
  EXPECT_EQ(next("body#/cursor", {"POST", "/v1/s", {}, R"({"cursor":"1","q":1})"}).body,
            R"({"cursor":"c 2","q":1})");
  rule.request.form.emplace_back("q", RequestTemplate::Text());
  EXPECT_EQ(next("body#/cursor", {"POST", "/v1/s", {}, "q=1"}).body, "q=1&cursor=c%202");
  EXPECT_EQ(next("body#/cursor", {"POST", "/v1/s", {}, "cursor=1&q=1"}).body, "q=1&cursor=c%202");
}

}  // namespace
}  // namespace recourse::search_test
