#include "filters/observe/call_differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

using Names = std::vector<std::string>;

CallFields CarriedBy(const std::string& type, const std::string& text, Headers headers = {},
                     Pairs query = {}, const std::string& secret = "secret") {
  RequestContext context;
  context.path = "/orders";
  context.query = std::move(query);
  headers.emplace_back("Content-Type", type);
  context.request = {"POST", "/orders", std::move(headers), text};
  const auto body = ReadCallBody(context.request);
  return FieldsOfCall(context, *body, HmacKey(secret));
}

CallFields CarriedByJson(const std::string& text, Headers headers = {}, Pairs query = {}) {
  return CarriedBy("application/json", text, std::move(headers), std::move(query));
}

TEST(CallDifferencesTest, NamesTellWhereACallDiffers) {
  const CallFields one = CarriedByJson(R"({"cart":1,"a/b~c":[1],"note":"x"})",
                                       {{"X-User", "ada"}, {"traceparent", "1"}}, {{"page", "1"}});
  EXPECT_EQ(DifferingFields(one, one), Names());
  EXPECT_EQ(DifferingFields(one, CarriedByJson(R"({"note":"x","a/b~c":[2],"cart":1.0})",
                                               {{"x-user", "bob"}, {"traceparent", "2"}},
                                               {{"page", "2"}, {"size", "9"}})),
            (Names{"body#/a~1b~0c", "header.x-user", "query.page", "query.size"}));
  // What only the first one has is told as well.
  EXPECT_EQ(DifferingFields(one, CarriedByJson(R"({"cart":1,"a/b~c":[1]})", {{"X-User", "ada"}},
                                               {{"page", "1"}})),
            Names{"body#/note"});
}

TEST(CallDifferencesTest, EveryKindOfBodyIsCompared) {
  const std::string form = "application/x-www-form-urlencoded";
  EXPECT_EQ(DifferingFields(CarriedBy(form, "a=1&b=2&b=3"), CarriedBy(form, "a=1&b=3&b=2")),
            Names{"body#/b"});
  EXPECT_EQ(DifferingFields(CarriedBy("text/plain", "a"), CarriedBy("text/plain", "b")),
            Names{"body"});
  const auto multipart = [](const std::string& boundary, const std::string& content) {
    return CarriedBy("multipart/form-data; boundary=" + boundary,
                     "--" + boundary + "\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n" +
                         content + "\r\n--" + boundary + "--\r\n");
  };
  EXPECT_EQ(DifferingFields(multipart("x", "1"), multipart("y", "1")), Names());
  EXPECT_EQ(DifferingFields(multipart("x", "1"), multipart("y", "2")), Names{"body#/a"});
}

TEST(CallDifferencesTest, ValuesAreHashedWithTheSecretAndNamesAreCut) {
  const auto hash = [](const std::string& secret) {
    return CarriedBy("text/plain", "value", {}, {}, secret).front().hash;
  };
  EXPECT_NE(hash("one"), hash("two"));
  std::string text = "{";
  for (int i = 0; i < 1'000; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::string(90, 'n') + std::to_string(i) + "\":1";
    text += ",\"m" + std::to_string(i) + "\":1";
  }
  const CallFields fields = CarriedByJson(text + "}");
  EXPECT_EQ(fields.size(), limits::kObservedFieldsMax);
  for (const CallField& field : fields) {
    EXPECT_LE(field.name.size(), limits::kObservedNameBytesMax);
  }
}

TEST(CallDifferencesTest, WhatIsKeptIsBoundedAndTheOldestGoes) {
  CallDifferences differences;
  CallFields fields;
  for (std::size_t i = 0; i < limits::kObservedFieldsMax; ++i) {
    fields.push_back({std::string(40, 'a') + std::to_string(1'000 + i), 1});
  }
  const std::uint64_t calls = limits::kObservedFieldsBytesMax / (fields.size() * 40);
  for (std::uint64_t i = 0; i < calls; ++i) differences.Keep(i, fields);
  fields[3].hash = 2;
  differences.Compare("tool", 0, fields);
  EXPECT_TRUE(differences.Read().empty());
  differences.Compare("tool", calls - 1, fields);
  ASSERT_EQ(differences.Read().size(), 1U);

  for (std::uint64_t i = 0; i < limits::kReportLinesMax + 5; ++i) {
    differences.Compare("tool" + std::to_string(i), calls - 1, fields);
  }
  EXPECT_EQ(differences.Read().size(), limits::kReportLinesMax);
  EXPECT_EQ(differences.other(), 6U);
}

}  // namespace
}  // namespace recourse
