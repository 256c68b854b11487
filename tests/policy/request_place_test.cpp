// Where a text of ours goes into a request, and what a key looks like.
#include "policy/template/request_place.h"

#include <gtest/gtest.h>

#include <string>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json.h"

namespace recourse::request_place_test {
namespace {

using Where = RequestPlace::Where;

std::string InBody(const std::string& place, std::string body, bool is_form = false) {
  const Insertion put = InsertionInBody(ParseRequestPlace(place).value(), body, is_form, "K\"1");
  return body.insert(put.at, put.text);
}

TEST(RequestPlaceTest, IsAFieldAPointerOrAQuery) {
  EXPECT_EQ(ParseRequestPlace("header:X-Key").value(), (RequestPlace{Where::kHeader, "X-Key"}));
  EXPECT_EQ(ParseRequestPlace("body#/a/b").value(), (RequestPlace{Where::kBody, "/a/b"}));
  EXPECT_EQ(ParseRequestPlace("query.requestId").value(),
            (RequestPlace{Where::kQuery, "requestId"}));
  EXPECT_EQ(ParseRequestPlace("document@idempotent(key)").value(),
            (RequestPlace{Where::kDirective, "idempotent", "key"}));
  EXPECT_FALSE(ParseRequestPlace("none").value().exists());
  for (const char* bad : {"", "header:", "header:A B", "body#", "body#/", "body#x", "path.id",
                          "answer.body#/id", "header.X-Key"}) {
    EXPECT_FALSE(ParseRequestPlace(bad)) << bad;
  }
}

TEST(RequestPlaceTest, ABodyIsChangedInThatPlaceAlone) {
  EXPECT_EQ(InBody("body#/id", "{}"), R"({"id":"K\"1"})");
  EXPECT_EQ(InBody("body#/id", " { \"a\" : 1.50 }\n"), " {\"id\":\"K\\\"1\", \"a\" : 1.50 }\n");
  EXPECT_EQ(InBody("body#/m/k", R"({"m": { "x":[1, 2]}, "z":{}})"),
            R"({"m": {"k":"K\"1", "x":[1, 2]}, "z":{}})");
  EXPECT_EQ(InBody("body#/m/k", R"({"m":{}})"), R"({"m":{"k":"K\"1"}})");
  EXPECT_EQ(InBody("body#/m/k", R"({"a":{"m":1}})"), R"({"m":{"k":"K\"1"},"a":{"m":1}})");
  EXPECT_EQ(InBody("body#/a~1b", R"({"c":"}"})"), R"({"a/b":"K\"1","c":"}"})");
  EXPECT_EQ(InBody("body#/m[k]", "a=1&b=%20", true), "a=1&b=%20&m%5Bk%5D=K%221");
  EXPECT_EQ(InBody("body#/k", "", true), "k=K%221");
  const RequestPlace query{Where::kQuery, "requestId"};
  EXPECT_EQ(InsertionInTarget(query, "/e", "1").text, "?requestId=1");
  EXPECT_EQ(InsertionInTarget(query, "/e?a=2", "1").text, "&requestId=1");
}

TEST(RequestPlaceTest, WhatStandsThereIsTakenOutAlone) {
  const auto without = [](const char* place, std::string text, bool is_form = false) {
    TakeFromBody(ParseRequestPlace(place).value(), is_form, text);
    return text;
  };
  EXPECT_EQ(without("body#/id", R"({"id":"x"})"), "{}");
  EXPECT_EQ(without("body#/id", R"({ "id" : "x" , "a":1})"), R"({  "a":1})");
  EXPECT_EQ(without("body#/id", R"({"a":{"id":1},"id":"}\"," })"), R"({"a":{"id":1} })");
  EXPECT_EQ(without("body#/id", R"({"a":1,"i\u0064":"x","b":2})"), R"({"a":1,"b":2})");
  EXPECT_EQ(without("body#/m/k", R"({"m": {"x":[1, 2], "k":"y"}})"), R"({"m": {"x":[1, 2]}})");
  EXPECT_EQ(without("body#/m/k", R"({"m":["k"]})"), R"({"m":["k"]})");
  EXPECT_EQ(without("body#/m[k]", "a=1&m%5Bk%5D=x&b=%20", true), "a=1&b=%20");
  EXPECT_EQ(without("body#/k", "k=1&q=2", true), "q=2");
  EXPECT_EQ(without("body#/k", "q=2&k=1", true), "q=2");
  EXPECT_EQ(without("body#/k", "kk=1", true), "kk=1");
  std::string target = "/e?a=1&requestId=x&b=2";
  TakeFromTarget({Where::kQuery, "requestId"}, target);
  EXPECT_EQ(target, "/e?a=1&b=2");
}

TEST(RequestPlaceTest, WhatIsNoObjectCannotBeWrittenInto) {
  const auto why = [](const std::string& place, const std::string& text, bool is_form = false) {
    const Json body = ParseJson(text).value();
    CallValues call;
    call.body = &body;
    call.body_is_form = is_form;
    return std::string(WhyNotWritable(ParseRequestPlace(place).value(), call));
  };
  EXPECT_EQ(why("body#/a", "{}"), "");
  EXPECT_EQ(why("body#/a/b", R"({"c":1})"), "");
  EXPECT_NE(why("body#/a/b", R"({"a":null})"), "");
  EXPECT_NE(why("body#/a/b", R"({"a":["b"]})"), "");
  EXPECT_NE(why("body#/a", "[]"), "");
  EXPECT_NE(why("body#/a/b", "{}", true), "");
  EXPECT_NE(std::string(WhyNotWritable({Where::kBody, "/a"}, {})), "");
  EXPECT_EQ(std::string(WhyNotWritable({Where::kQuery, "a"}, {})), "");
}

TEST(RequestPlaceTest, WhatStandsThereMustBeAText) {
  const Json body = ParseJson(R"({"a":"x","n":1,"z":null})").value();
  CallValues call;
  call.body = &body;
  EXPECT_EQ(TextAtPlace({Where::kBody, "/a"}, call).value(), "x");
  EXPECT_EQ(TextAtPlace({Where::kBody, "/b"}, call).value(), std::nullopt);
  EXPECT_FALSE(TextAtPlace({Where::kBody, "/n"}, call));
  EXPECT_FALSE(TextAtPlace({Where::kBody, "/z"}, call));
}

// Never to change: what was sent under a key is asked for by it.
TEST(KeyFormTest, AKeyHasTheFormThatABackendTakes) {
  const Digest key = Sha256("a key");
  EXPECT_EQ(KeyText({}, key), ToHex(key));
  const std::string uuid = KeyText(ParseKeyForm("uuid").value(), key);
  EXPECT_EQ(uuid.size(), 36U);
  EXPECT_EQ(uuid[14], '4');
  EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos);
  EXPECT_EQ(uuid, "8fa3aab2-faa9-479e-8a03-98da5b5abd07") << "the first that was made";
  for (const char* text : {"uuid", "alnum:25", "base32hex:64", "alnum:64", "hex:64"}) {
    const KeyForm form = ParseKeyForm(text).value();
    EXPECT_EQ(form.Text(), text);
    EXPECT_TRUE(Fits(form, KeyText(form, key))) << text;
    EXPECT_NE(KeyText(form, key), KeyText(form, Sha256("another"))) << text;
    EXPECT_EQ(KeyText(form, key).size(), static_cast<std::size_t>(form.length)) << text;
  }
  for (const char* bad : {"", "uuid4", "alnum", "alnum:", "alnum:21", "alnum:65", "base32hex:x",
                          "hex:32", "alnum:25x", "alnum:-25"}) {
    EXPECT_FALSE(ParseKeyForm(bad)) << bad;
  }
}

TEST(KeyFormTest, AnAgentsKeyIsOneWhereItHasTheForm) {
  const KeyForm uuid = ParseKeyForm("uuid").value(), short_one = ParseKeyForm("alnum:25").value();
  EXPECT_TRUE(Fits(uuid, "0F6B1C5E-90e5-4f75-9d0a-4c2a7a2c6a50"));
  EXPECT_FALSE(Fits(uuid, "cart-42"));
  EXPECT_TRUE(Fits(short_one, "Cart42"));
  EXPECT_FALSE(Fits(short_one, "cart-42"));
  EXPECT_FALSE(Fits(short_one, std::string(26, 'a')));
  EXPECT_TRUE(Fits(KeyForm(), "cart-42"));
}

}  // namespace
}  // namespace recourse::request_place_test
