#include "policy/effects/json_path.h"

#include <gtest/gtest.h>

namespace recourse::json_path_test {
namespace {

YamlNode Tree(const std::string& text) {
  Problems problems;
  YamlNode root = ReadYaml(problems.AddFile("t"), text, problems);
  EXPECT_FALSE(problems.has_errors()) << text;
  return root;
}

// The texts of what is selected; of maps and lists their sizes.
std::string Selected(const std::string& path, const std::string& text) {
  const auto parsed = JsonPath::Parse(path);
  if (!parsed) return "refused";
  YamlNode root = Tree(text);
  std::string out;
  for (const SelectedNode& one : parsed->Select(root)) {
    const std::size_t size = one.node->members.size() + one.node->items.size();
    out +=
        (out.empty() ? "" : " ") + (one.node->text.empty() ? std::to_string(size) : one.node->text);
  }
  return out;
}

constexpr const char* kShop =
    "paths: { /orders: { get: { operationId: list }, post: { operationId: make, tags: [ a, b ] } },"
    " \"/it's\": { get: { operationId: odd } } }\n";

TEST(JsonPathTest, NamesIndexesWildcardsAndDescendants) {
  EXPECT_EQ(Selected("$", kShop), "1");
  EXPECT_EQ(Selected("$.paths['/orders'].post.operationId", kShop), "make");
  EXPECT_EQ(Selected("$.paths[\"/it's\"].get.operationId", kShop), "odd");
  EXPECT_EQ(Selected("$.paths['/it\\'s'].get.operationId", kShop), "odd");
  EXPECT_EQ(Selected("$.paths.*.get.operationId", kShop), "list odd");
  EXPECT_EQ(Selected("$..operationId", kShop), "list make odd");
  EXPECT_EQ(Selected("$..tags[1]", kShop), "b");
  EXPECT_EQ(Selected("$..tags[*]", kShop), "a b");
  EXPECT_EQ(Selected("$.paths['/orders']['post', 'get'].operationId", kShop), "list make");
  EXPECT_EQ(Selected("$.nothing.there", kShop), "");
}

TEST(JsonPathTest, AFilterComparesOneValue) {
  EXPECT_EQ(Selected("$.paths.*[?@.operationId == 'make'].operationId", kShop), "make");
  EXPECT_EQ(Selected("$.paths.*[?(@.operationId != \"make\")].operationId", kShop), "list odd");
  EXPECT_EQ(Selected("$.paths.*[?@.tags].operationId", kShop), "make");
  EXPECT_EQ(Selected("$[?@['a b'] == 7].c", "x: { a b: 7, c: yes it is }\n"), "yes it is");
}

TEST(JsonPathTest, WhatIsSelectedTwiceComesOnceAndBeforeWhatIsInIt) {
  EXPECT_EQ(Selected("$..['a','a']", "a: { a: 1, b: 2 }\n"), "2 1");
  EXPECT_EQ(Selected("$..*..c", "a: { b: { c: 3 } }\n"), "3");
}

TEST(JsonPathTest, WhatIsNotUnderstoodIsRefused) {
  for (const char* path : {"", "paths", "$paths", "$.", "$.a[", "$.a['b", "$.a[-1]", "$.a[0:2]",
                           "$[?@.a > 1]", "$[?@.a == 1 && @.b == 2]", "$[?length(@.a) == 2]",
                           "$.a b", "$['\\u0061']", "$[?@.a ==]"}) {
    EXPECT_EQ(Selected(path, kShop), "refused") << path;
  }
}

}  // namespace
}  // namespace recourse::json_path_test
