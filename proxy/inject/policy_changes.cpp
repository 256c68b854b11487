#include "proxy/inject/policy_changes.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/language/yaml_reader.h"

namespace recourse {
namespace {

bool IsEqual(const YamlNode& a, const YamlNode& b) {
  if (a.kind != b.kind || a.text != b.text || a.is_quoted != b.is_quoted) return false;
  const auto has_equal = [&](const YamlNode::Member& member) {
    const YamlNode* const other = b.Find(member.name);
    return other != nullptr && IsEqual(member.value, *other);
  };
  return std::ranges::equal(a.items, b.items, IsEqual) && a.members.size() == b.members.size() &&
         std::ranges::all_of(a.members, has_equal);
}

std::string_view TextIn(const YamlNode& node, std::string_view name) {
  const YamlNode* const found = node.Find(name);
  return found == nullptr ? std::string_view() : found->text;
}

std::string WhatChanged(const std::string& name, const YamlNode& before, const YamlNode& after) {
  if (TextIn(before, "effect") == "write" && TextIn(after, "effect") == "read") {
    return name + " is no write any more, so its repeats are executed";
  }
  return name + " changed";
}

// Of two maps: a section has parts with names of their own, and those may be told apart.
void Compare(const std::string& path, const YamlNode& before, const YamlNode& after, bool is_root,
             std::vector<std::string>& changes) {
  for (const auto& [name, place, value] : after.members) {
    const std::string here = path + name;
    const YamlNode* const was = before.Find(name);
    if (was == nullptr) {
      changes.push_back(here + " is new");
    } else if (IsEqual(*was, value)) {
      continue;
    } else if (is_root && was->kind == YamlNode::Kind::kMap && value.kind == was->kind) {
      Compare(here + '.', *was, value, false, changes);
    } else {
      changes.push_back(WhatChanged(here, *was, value));
    }
  }
  for (const auto& [name, place, value] : before.members) {
    if (after.Find(name) == nullptr) changes.push_back(path + name + " is gone");
  }
}

}  // namespace

std::vector<std::string> PolicyChanges(std::string_view before, std::string_view after) {
  Problems problems;
  const YamlText was = ReadYamlText(problems.AddFile("before"), before, problems);
  const YamlText is = ReadYamlText(problems.AddFile("after"), after, problems);
  std::vector<std::string> changes;
  Compare("", was.root, is.root, true, changes);
  return changes;
}

}  // namespace recourse
