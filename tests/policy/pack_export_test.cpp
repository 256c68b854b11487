// What `pack export` writes, read again: the packs as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "policy/effects/declared.h"
#include "policy/effects/export.h"
#include "policy/explain/explain.h"
#include "policy/explain/packs.h"
#include "policy/import/mcp_import.h"
#include "policy/import/openapi.h"
#include "policy/language/loader.h"
#include "policy/language/yaml_reader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::pack_export_test {
namespace {

struct Pack {
  YamlNode tree;
  std::shared_ptr<const Policy> policy;
};

Pack Read(const std::string& name, std::string_view text) {
  Problems problems;
  Pack pack;
  pack.tree = ReadYaml(problems.AddFile(name), text, problems);
  pack.policy = LoadPolicyTree(pack.tree, problems);
  for (const PolicyProblem& problem : problems.Take()) {
    EXPECT_EQ(problem.severity, PolicyProblem::Severity::kWarning) << problem.ToString();
  }
  return pack;
}

// Methods in any order, one match as a list.
void Normalize(YamlNode& tool) {
  for (YamlNode::Member& word : tool.members) {
    if (word.name != "match") continue;
    if (word.value.kind == YamlNode::Kind::kScalar) {
      YamlNode list;
      list.kind = YamlNode::Kind::kList;
      list.items.push_back(word.value);
      word.value = list;
    }
    for (YamlNode& match : word.value.items) {
      if (match.text.starts_with("PATCH|PUT ")) match.text.replace(0, 9, "PUT|PATCH");
    }
  }
}

// An MCP server declares its tools itself.
bool IsOfMcp(const YamlNode::Member& member) {
  const YamlNode* const protocol = member.value.Find("protocol");
  const YamlNode* const match = member.value.Find("match");
  const bool calls = match != nullptr &&
                     (match->text.starts_with("tools/call ") ||
                      (!match->items.empty() && match->items[0].text.starts_with("tools/call ")));
  return calls || (protocol != nullptr && protocol->text == "mcp");
}

// Which backends and tools are not the same, and how many there are.
std::string Difference(const YamlNode& before, const YamlNode& after) {
  std::string out;
  for (const char* section : {"backends", "tools"}) {
    const YamlNode* const other = after.Find(section);
    if (other == nullptr) return std::string("no ") + section;
    std::vector<YamlNode::Member> members = before.Find(section)->members;
    std::erase_if(members, IsOfMcp);
    for (const YamlNode::Member& member : members) {
      YamlNode a = member.value;
      const YamlNode* const found = other->Find(member.name);
      YamlNode b = found == nullptr ? YamlNode() : *found;
      Normalize(a);
      Normalize(b);
      if (!IsSameNode(a, b)) out += member.name + " ";
    }
    if (members.size() != other->members.size()) out += "other number of ";
  }
  return out;
}

class PackExportTest : public ::testing::TestWithParam<PackFile> {};

TEST_P(PackExportTest, AnOverlayOfNothingElseGivesThePackAgain) {
  const std::string name(GetParam().name);
  const Pack pack = Read(name, GetParam().bytes);
  ASSERT_NE(pack.policy, nullptr);
  const std::string overlay = OverlayOf(name, "From the\ntests.", *pack.policy, pack.tree);
  auto api =
      ReadOpenApi({"empty.yaml", "openapi: 3.1.0\ninfo: { title: t, version: v }\npaths: {}\n"},
                  {{"overlay.yaml", overlay}});
  ASSERT_TRUE(api) << api.error() << overlay;
  const auto policy = PolicyFromOpenApi("empty.yaml", std::move(*api));
  ASSERT_TRUE(policy) << policy.error() << overlay;
  EXPECT_EQ(Difference(pack.tree, Read("made.yaml", *policy).tree), "") << *policy;
}

TEST_P(PackExportTest, AListOfMcpToolsGivesThePackAgain) {
  const std::string name(GetParam().name);
  const Pack pack = Read(name, GetParam().bytes);
  ASSERT_NE(pack.policy, nullptr);
  const std::string list = McpToolsOf(*pack.policy, pack.tree);
  McpServerInfo server{"http://127.0.0.1:3000/mcp", "server", "1", "2026-07-28", {}, {}};
  const auto json = ParseJson(list);
  ASSERT_TRUE(json) << list;
  ASSERT_TRUE(AddMcpTools(*json, server)) << list;
  const auto policy = PolicyFromMcp(server, McpTrust::kBelieve);
  ASSERT_TRUE(policy) << policy.error() << list;
  EXPECT_EQ(Difference(pack.tree, Read("made.yaml", *policy).tree), "") << *policy;
  // Not believed, nothing of it is in force.
  const auto shown = PolicyFromMcp(server, McpTrust::kShow);
  ASSERT_TRUE(shown);
  for (const Tool& tool : Read("shown.yaml", *shown).policy->tools) {
    EXPECT_TRUE(!tool.undo && !tool.mcp_names.empty()) << *shown;
  }
}

INSTANTIATE_TEST_SUITE_P(Packs, PackExportTest, ::testing::ValuesIn(EmbeddedPacks()),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

}  // namespace
}  // namespace recourse::pack_export_test
