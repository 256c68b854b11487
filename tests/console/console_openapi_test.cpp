#include "proxy/console/console_openapi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/api/openapi.h"
#include "proxy/base/http/own_port.h"
#include "proxy/base/json/json.h"
#include "proxy/base/json/json_object.h"
#include "proxy/console/merge.h"

namespace recourse::console_openapi_test {
namespace {

constexpr std::array<std::string_view, 2> kLeftOut = {admin_paths::kStream,
                                                      admin_paths::kLedgerRows};

Json Parsed(std::string_view text) {
  const auto json = ParseJson(text);
  EXPECT_TRUE(json) << text.substr(0, 200);
  return json.value_or(Json());
}

const Json& OfPod() {
  static const Json document = Parsed(OpenApiDocument());
  return document;
}
const Json& OfConsole() {
  static const Json document = Parsed(ConsoleOpenApi(OpenApiDocument(), kLeftOut));
  return document;
}

const Json& At(const Json& root, const std::string& pointer) {
  static const Json kNone;
  const Json* const found = AtPointer(root, pointer);
  EXPECT_NE(found, nullptr) << pointer;
  return found == nullptr ? kNone : *found;
}
const Json& Schema(const Json& document, std::string_view name) {
  return At(document, "/components/schemas/" + std::string(name));
}

std::string Text(const Json& value) {
  std::string text;
  AppendPlainJson(text, value);
  return text;
}

// How many parameters of the operation name a ledger.
std::ptrdiff_t LedgerParameters(const Json& operation) {
  const Json* const parameters = operation.Find("parameters");
  if (!IsArray(parameters)) return 0;
  return std::ranges::count_if(parameters->items, [](const Json& one) {
    return ScalarText(one, "name") == "ledger" && ScalarText(one, "in") == "query";
  });
}

TEST(ConsoleOpenApiTest, ItHasThePathsOfAPodButThoseThatAreLeftOut) {
  std::vector<std::string> expected, found;
  for (const auto& [path, item] : At(OfPod(), "/paths").members) {
    if (std::ranges::find(kLeftOut, path) == kLeftOut.end()) expected.push_back(path);
  }
  for (const auto& [path, item] : At(OfConsole(), "/paths").members) found.push_back(path);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size() + kLeftOut.size(), At(OfPod(), "/paths").members.size());
  EXPECT_NE(At(OfConsole(), "/paths").Find(admin_paths::kLedger), nullptr);
}

TEST(ConsoleOpenApiTest, WhatNeedsARoleTakesTheNameOfALedger) {
  std::size_t with = 0;
  for (const auto& [path, item] : At(OfConsole(), "/paths").members) {
    for (const auto& [method, operation] : item.members) {
      const Json* const security = operation.Find("security");
      const bool is_for_anybody = IsArray(security) && security->items.empty();
      const bool is_of_console = path == kPortPath || path == admin_paths::kSession;
      const bool takes = IsArray(security) && !is_for_anybody && !is_of_console;
      EXPECT_EQ(LedgerParameters(operation), takes ? 1 : 0) << method << " " << path;
      with += takes ? 1 : 0;
    }
  }
  EXPECT_GT(with, 20U);
}

TEST(ConsoleOpenApiTest, EveryReferenceLeadsSomewhere) {
  std::vector<const Json*> left{&OfConsole()};
  std::size_t found = 0;
  while (!left.empty()) {
    const Json& value = *left.back();
    left.pop_back();
    for (const Json& item : value.items) left.push_back(&item);
    for (const auto& [name, member] : value.members) {
      left.push_back(&member);
      if (name != "$ref" || !member.text.starts_with("#/")) continue;
      EXPECT_NE(AtPointer(OfConsole(), member.text.substr(1)), nullptr) << member.text;
      ++found;
    }
  }
  EXPECT_GT(found, 100U);
}

TEST(ConsoleOpenApiTest, AnIdHasTheNameOfItsLedgerOrNot) {
  std::vector<std::regex> patterns;
  for (const Json& one : At(Schema(OfConsole(), "Id"), "/anyOf").items) {
    if (const Json* const pattern = one.Find("pattern")) patterns.emplace_back(pattern->text);
  }
  const auto fits = [&](const std::string& text) {
    return std::ranges::any_of(
        patterns, [&](const std::regex& pattern) { return std::regex_search(text, pattern); });
  };
  for (const std::string& id :
       {std::string("17"), std::string("42.17"), std::string("eu:17"), std::string("eu-2:42.17"),
        PrintLedgerCursors({{"eu", "42.17"}, {"us", "7"}}),
        PrintLedgerCursors({{"eu", "1790000000000:42.17,43.5"}, {"us", "begin"}})}) {
    EXPECT_TRUE(fits(id)) << id;
  }
  for (const char* const no : {"", "us:", ":1", "us:us:1", "US:1", "eu:x", "0.1", "eu=", "~", "=1",
                               "eu=1~~us=2", "eu:1 ", "-1"}) {
    EXPECT_FALSE(fits(no)) << no;
  }
  EXPECT_EQ(ScalarText(Schema(OfConsole(), "Id").Find("anyOf")->items.front(), "type"), "integer");
}

TEST(ConsoleOpenApiTest, RowsAndPagesSayWhoseTheyAre) {
  for (const char* const row : {"ApprovalFacts", "EventFacts", "FlowFacts", "FlowMove"}) {
    EXPECT_EQ(ScalarText(At(Schema(OfConsole(), row), "/properties/ledger"), "type"), "string");
    EXPECT_EQ(AtPointer(Schema(OfPod(), row), "/properties/ledger"), nullptr) << row;
  }
  for (const char* const page :
       {"ApprovalPage", "EventPage", "FlowPage", "OperationPage", "Session"}) {
    EXPECT_EQ(ScalarText(At(Schema(OfConsole(), page), "/properties/ledgers"), "type"), "array");
  }
  const std::vector<Json>& lines = At(Schema(OfConsole(), "EventLine"), "/anyOf").items;
  ASSERT_EQ(lines.size(), At(Schema(OfPod(), "EventLine"), "/anyOf").items.size() + 1);
  EXPECT_EQ(Text(*lines.back().Find("required")), R"(["ledgers"])");
  EXPECT_EQ(ScalarText(At(lines.back(), "/properties/ledgers"), "type"), "array");
}

TEST(ConsoleOpenApiTest, WhatIsOfAllIsASumOrThatOfOne) {
  for (const std::string path : {"~1status", "~1policy~1tools"}) {
    const std::string place =
        "/paths/" + path + "/get/responses/200/content/application~1json/schema";
    const std::vector<Json>& either = At(OfConsole(), place + "/anyOf").items;
    ASSERT_EQ(either.size(), 2U) << path;
    EXPECT_EQ(Text(either.front()), Text(At(OfPod(), place)));
    EXPECT_EQ(Text(*either.back().Find("required")), R"(["ledgers"])");
  }
}

// Whether a page of `names` has what its schema requires.
void ExpectWhole(const ListForm& form, const char* schema) {
  const std::string text = MergedPage(form, {}, {});
  const Json page = Parsed(text);
  for (const Json& name : At(Schema(OfConsole(), schema), "/required").items) {
    EXPECT_NE(page.Find(name.text), nullptr) << name.text << " in " << text;
  }
  for (const auto& [name, value] : page.members) {
    EXPECT_NE(AtPointer(Schema(OfConsole(), schema), "/properties/" + name), nullptr) << name;
  }
}

TEST(ConsoleOpenApiTest, APageOfNobodyIsAsItIsDescribed) {
  ExpectWhole(*ListFormOf(admin_paths::kApprovals), "ApprovalPage");
  ExpectWhole(*ListFormOf(admin_paths::kEvents), "EventPage");
  ExpectWhole(*ListFormOf(admin_paths::kFlows), "FlowPage");
  ExpectWhole(*ListFormOf(admin_paths::kOperations), "OperationPage");
}

TEST(ConsoleOpenApiTest, RowsHaveTheTimeByWhichTheyAreInOrder) {
  const auto has = [](std::string_view schema, std::string_view name) {
    return AtPointer(Schema(OfPod(), schema), "/properties/" + std::string(name)) != nullptr;
  };
  EXPECT_TRUE(has("ApprovalFacts", ListFormOf(admin_paths::kApprovals)->time));
  EXPECT_TRUE(has("EventFacts", ListFormOf(admin_paths::kEvents)->time));
  EXPECT_TRUE(has("FlowMove", ListFormOf(admin_paths::kEvents)->time));
  EXPECT_TRUE(has("FlowFacts", ListFormOf(admin_paths::kFlows)->time));
  EXPECT_TRUE(has("EventFacts", ListFormOf(admin_paths::kOperations)->time));
}

TEST(ConsoleOpenApiTest, ASmallDocumentGetsWhatItHasAPlaceFor) {
  EXPECT_EQ(ConsoleOpenApi(R"({"paths":{"/stream":{"get":{"security":[{}]}},"/a":{"get":{}}}})",
                           kLeftOut),
            R"({"paths":{"/a":{"get":{}}}})");
  const Json json = Parsed(ConsoleOpenApi(
      R"({"paths":{"/session":{"get":{"security":[{"bearer":[]}]}},
                   "/a":{"get":{"security":[]},"put":{"security":[{"bearer":[]}]},
                         "post":{"security":[{"bearer":["read"]}],"parameters":[{"name":"x"}]}}}})",
      {}));
  EXPECT_EQ(At(json, "/paths/~1session/get").Find("parameters"), nullptr);
  EXPECT_EQ(At(json, "/paths/~1a/get").Find("parameters"), nullptr);
  EXPECT_EQ(ScalarText(At(json, "/paths/~1a/put/parameters/0"), "name"), "ledger");
  EXPECT_EQ(ScalarText(At(json, "/paths/~1a/post/parameters/0"), "name"), "x");
  EXPECT_EQ(ScalarText(At(json, "/paths/~1a/post/parameters/1"), "name"), "ledger");
  EXPECT_EQ(ConsoleOpenApi(R"({"components":{"schemas":{"FlowFacts":{"type":"object"}}}})", {})
                .find(R"({"components":{"schemas":{"FlowFacts":{"type":"object","properties":)"),
            0U);
}

TEST(ConsoleOpenApiTest, WhatIsNoDescriptionStaysWhatItIs) {
  for (const std::string text :
       {"null", "[]", "7", "{}", R"({"paths":null})", R"({"paths":[]})", R"({"paths":{"/a":7}})",
        R"({"components":{}})", R"({"components":{"schemas":[]}})", R"({"components":7})",
        R"({"paths":{"/status":{"get":{"responses":{"200":{}}}}}})",
        R"({"paths":{"/a":{"get":{"security":{}}}}})"}) {
    EXPECT_EQ(ConsoleOpenApi(text, kLeftOut), text);
  }
  EXPECT_EQ(ConsoleOpenApi("not json", kLeftOut), "null");
  EXPECT_EQ(ConsoleOpenApi("", {}), "null");
}

}  // namespace
}  // namespace recourse::console_openapi_test
