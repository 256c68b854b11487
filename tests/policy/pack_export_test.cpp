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

bool IsMcpServer(const YamlNode::Member& member) {
  const YamlNode* const protocol = member.value.Find("protocol");
  return protocol != nullptr && protocol->text == "mcp";
}

bool IsMcpTool(const YamlNode::Member& member) {
  const YamlNode* const match = member.value.Find("match");
  return match != nullptr &&
         (match->text.starts_with("tools/call ") ||
          (!match->items.empty() && match->items[0].text.starts_with("tools/call ")));
}

// What of an MCP server's tool nobody but the user of Recourse says, names with a star, and what an
// import adds.
void NormalizeMcp(YamlNode& tool) {
  std::erase_if(tool.members, [](const YamlNode::Member& word) {
    return word.name == "same_as" || word.name == "declared";
  });
  for (YamlNode::Member& word : tool.members) {
    if (word.name != "match") continue;
    std::erase_if(word.value.items, [](const YamlNode& one) { return one.text.ends_with('*'); });
  }
}

enum class McpTools : std::uint8_t { kLeftOut, kThere };

// Which backends and tools are not the same, and how many there are. MCP servers are compared by
// their tools.
std::string Difference(const YamlNode& before, const YamlNode& after,
                       McpTools mcp = McpTools::kLeftOut) {
  std::string out;
  for (const char* section : {"backends", "tools"}) {
    const YamlNode* const other = after.Find(section);
    if (other == nullptr) return std::string("no ") + section;
    const auto is_left_out = [mcp](const YamlNode::Member& member) {
      return IsMcpServer(member) || (mcp == McpTools::kLeftOut && IsMcpTool(member));
    };
    std::vector<YamlNode::Member> members = before.Find(section)->members;
    std::vector<YamlNode::Member> others = other->members;
    std::erase_if(members, is_left_out);
    std::erase_if(others, is_left_out);
    for (const YamlNode::Member& member : members) {
      YamlNode a = member.value;
      const YamlNode* const found = other->Find(member.name);
      YamlNode b = found == nullptr ? YamlNode() : *found;
      for (YamlNode* const tool : {&a, &b}) {
        Normalize(*tool);
        if (IsMcpTool(member)) NormalizeMcp(*tool);
      }
      if (!IsSameNode(a, b)) out += member.name + " ";
    }
    if (members.size() != others.size()) out += "other number of ";
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
  std::string of_server = "server";
  for (const auto& backend : pack.tree.Find("backends")->members) {
    if (IsMcpServer(backend)) of_server = backend.name;
  }
  McpServerInfo server{"http://127.0.0.1:3000/mcp", of_server, "1", "2026-07-28", {}, {}};
  const auto json = ParseJson(list);
  ASSERT_TRUE(json) << list;
  ASSERT_TRUE(AddMcpTools(*json, server)) << list;
  const auto policy = PolicyFromMcp(server, McpTrust::kBelieve);
  ASSERT_TRUE(policy) << policy.error() << list;
  EXPECT_EQ(Difference(pack.tree, Read("made.yaml", *policy).tree, McpTools::kThere), "")
      << *policy;
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
