#include "policy/effects/declared.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "policy/language/config_reader.h"
#include "policy/language/loader.h"
#include "policy/undo/undo_class.h"

namespace recourse {
namespace {

using Member = YamlNode::Member;

constexpr auto kToolFacts = std::to_array<std::string_view>({"effect",
                                                             "identity",
                                                             "ignore",
                                                             "agent_key",
                                                             "superseded_by",
                                                             "external_ref",
                                                             "key_at",
                                                             "key_form",
                                                             "key_lives",
                                                             "key_scope",
                                                             "key_hit",
                                                             "key_answer",
                                                             "key_after_failure",
                                                             "settle",
                                                             "settled_by",
                                                             "before",
                                                             "undo",
                                                             "reason",
                                                             "pivot",
                                                             "success_when",
                                                             "failed_when",
                                                             "not_executed",
                                                             "on_error",
                                                             "repeat_if",
                                                             "happened_if",
                                                             "deny",
                                                             "allow",
                                                             "approval",
                                                             "timeout",
                                                             "answer",
                                                             "upgrade"});
constexpr auto kToolWordsOfUser = std::to_array<std::string_view>(
    {"match", "scope", "dedupe_window", "across_traces", "across_window", "on_mismatch", "trace",
     "same_as", "breaks_flow", "hold", "redact", "keep_headers", "failed_ttl", "declared",
     "credentials"});
constexpr auto kBackendFacts = std::to_array<std::string_view>(
    {"url", "hosts", "protocol", "persisted", "key_header", "key_at", "key_form", "key_lives",
     "key_scope", "key_hit", "key_answer", "key_after_failure", "repeat_if", "escaped_slash",
     "timeout"});
constexpr auto kBackendWordsOfUser = std::to_array<std::string_view>(
    {"credentials", "tls", "addresses", "intercept", "trust_annotations", "trust_effects",
     "write_reuse", "connect_timeout"});

bool IsAmong(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// Tells of a word that is no fact.
void RefuseWord(const Member& member, const std::string& key,
                std::span<const std::string_view> facts, std::span<const std::string_view> of_user,
                Problems& problems) {
  const std::string member_key = JoinKey(key, member.name);
  if (IsAmong(of_user, member.name)) {
    problems.Error(member.name_place, member_key,
                   "is for the user of Recourse to say, in the policy; an API's owner declares how "
                   "it behaves");
    return;
  }
  const std::vector<std::string> words(facts.begin(), facts.end());
  problems.Error(
      member.name_place, member_key,
      "unknown key" + DidYouMean(member.name, words) + "; accepted: " + JoinWords(words));
}

// A file of the machine that Recourse runs on would be read and sent.
void RefuseFiles(const YamlNode& rule, const std::string& key, Problems& problems) {
  for (const YamlNode& one : rule.items) RefuseFiles(one, key, problems);
  const YamlNode* const credentials = rule.Find("credentials");
  if (credentials == nullptr || credentials->kind != YamlNode::Kind::kMap) return;
  problems.Error(credentials->place, JoinKey(key, "credentials"),
                 "an API's owner names no files; accepted: from_call, or names of fields");
}

bool IsMap(const YamlNode& node, const std::string& key, Problems& problems) {
  if (node.kind == YamlNode::Kind::kMap) return true;
  problems.Error(node.place, key, "a map is accepted here: { effect: read }");
  return false;
}

// The methods by which each path is called, as they came.
std::vector<std::pair<std::string, std::string>> MethodsByPath(const DeclaredTool& tool) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const std::string& call : tool.calls) {
    const auto space = call.find(' ');
    const std::string method = call.substr(0, space), path = call.substr(space + 1);
    const auto at = std::ranges::find(found, path, &std::pair<std::string, std::string>::second);
    if (at == found.end()) {
      found.emplace_back(method, path);
    } else {
      at->first += '|' + method;
    }
  }
  return found;
}

}  // namespace

bool IsToolFact(std::string_view word) { return IsAmong(kToolFacts, word); }

bool IsBackendFact(std::string_view word) { return IsAmong(kBackendFacts, word); }

YamlNode TextNodeOf(std::string text) {
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.is_quoted = true;
  node.text = std::move(text);
  return node;
}

YamlNode MapNodeOf(std::vector<Member> members) {
  YamlNode node;
  node.kind = YamlNode::Kind::kMap;
  node.members = std::move(members);
  return node;
}

Member MemberOf(std::string name, YamlNode value) {
  const Place place = value.place;
  return {std::move(name), place, std::move(value)};
}

bool IsSameNode(const YamlNode& a, const YamlNode& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size() ||
      a.members.size() != b.members.size()) {
    return false;
  }
  if (a.kind == YamlNode::Kind::kScalar) {
    // Quotes tell a text from a number, and nothing else.
    const auto literal = ParseJson(a.text);
    const bool is_literal = literal && literal->is_scalar();
    return a.text == b.text && (!is_literal || a.is_quoted == b.is_quoted);
  }
  const auto is_there = [&b](const Member& member) {
    const YamlNode* const other = b.Find(member.name);
    return other != nullptr && IsSameNode(member.value, *other);
  };
  return std::ranges::equal(a.items, b.items, IsSameNode) &&
         std::ranges::all_of(a.members, is_there);
}

std::optional<DeclaredTool> ReadDeclaredTool(const YamlNode& effect, const std::string& key,
                                             Problems& problems) {
  if (!IsMap(effect, key, problems)) return std::nullopt;
  DeclaredTool tool;
  tool.place = effect.place;
  tool.facts.kind = YamlNode::Kind::kMap;
  tool.facts.place = effect.place;
  const auto own = [&](const Member& member, std::string& into) {
    if (auto text = ReadText(member.value, JoinKey(key, member.name), problems)) into = *text;
  };
  for (const Member& member : effect.members) {
    if (member.name == "name") {
      own(member, tool.name);
    } else if (member.name == "backend") {
      own(member, tool.backend);
    } else if (member.name == "class") {
      own(member, tool.effect_class);
      tool.class_place = member.value.place;
    } else if (IsToolFact(member.name)) {
      RefuseFiles(member.value, JoinKey(key, member.name), problems);
      tool.facts.members.push_back(member);
    } else {
      RefuseWord(member, key, kToolFacts, kToolWordsOfUser, problems);
    }
  }
  return tool;
}

std::vector<Member> ReadDeclaredBackends(const YamlNode& effect, const std::string& key,
                                         Problems& problems) {
  std::vector<Member> backends;
  if (!IsMap(effect, key, problems)) return backends;
  MapReader map(effect, key, problems);
  const YamlNode* const section = map.Need("backends", "{ NAME: { url: .., key_at: .. } }");
  map.Finish();
  if (section == nullptr || !IsMap(*section, map.KeyOf("backends"), problems)) return backends;
  for (const Member& backend : section->members) {
    const std::string backend_key = map.KeyOf("backends") + '.' + backend.name;
    if (!IsMap(backend.value, backend_key, problems)) continue;
    for (const Member& member : backend.value.members) {
      if (IsBackendFact(member.name)) continue;
      RefuseWord(member, backend_key, kBackendFacts, kBackendWordsOfUser, problems);
    }
    backends.push_back(backend);
  }
  return backends;
}

void AddDeclared(std::vector<DeclaredTool>& tools, DeclaredTool tool, Problems& problems) {
  const auto known = std::ranges::find(tools, tool.name, &DeclaredTool::name);
  if (known == tools.end()) {
    tools.push_back(std::move(tool));
    return;
  }
  if (known->backend != tool.backend || known->effect_class != tool.effect_class ||
      !IsSameNode(known->facts, tool.facts)) {
    problems.Error(tool.place, "tools." + tool.name,
                   "is declared otherwise at " + problems.NameOf(known->place) +
                       "; calls of one name are one tool");
    return;
  }
  known->calls.insert(known->calls.end(), tool.calls.begin(), tool.calls.end());
}

YamlNode MatchOf(const DeclaredTool& tool, const std::string& backend, Problems& problems) {
  YamlNode match;
  match.kind = YamlNode::Kind::kList;
  match.place = tool.place;
  const auto paths = MethodsByPath(tool);
  const bool is_one = std::ranges::all_of(
      paths, [&](const auto& path) { return path.first == paths.front().first; });
  if (!is_one) {
    problems.Error(tool.place, "tools." + tool.name,
                   "is the name of calls by different methods; give them a name each");
  }
  for (const auto& [methods, path] : paths) {
    match.items.push_back(TextNodeOf(methods + ' ' + backend + ' ' + path));
    match.items.back().place = tool.place;
  }
  if (match.items.size() == 1) return YamlNode(match.items.front());
  return match;
}

bool LacksUndo(const DeclaredTool& tool) {
  const YamlNode* const effect = tool.facts.Find("effect");
  return (effect == nullptr || effect->text != "read") && tool.facts.Find("undo") == nullptr &&
         tool.facts.Find("approval") == nullptr && tool.facts.Find("reason") == nullptr;
}

YamlNode PolicyTreeOf(std::vector<Member> backends, std::vector<Member> tools) {
  YamlNode version = TextNodeOf("1");
  version.is_quoted = false;
  // So that what nobody has decided is no error yet.
  std::vector<Member> root{MemberOf("version", std::move(version)),
                           MemberOf("mode", TextNodeOf("observe")),
                           MemberOf("backends", MapNodeOf(std::move(backends)))};
  if (!tools.empty()) root.push_back(MemberOf("tools", MapNodeOf(std::move(tools))));
  return MapNodeOf(std::move(root));
}

std::shared_ptr<const Policy> LoadDeclared(const YamlNode& tree,
                                           const std::vector<DeclaredTool>& tools,
                                           Problems& problems) {
  std::shared_ptr<const Policy> policy = LoadPolicyTree(tree, problems);
  if (policy == nullptr) return policy;
  for (const DeclaredTool& tool : tools) {
    const Tool* const loaded = policy->FindTool(tool.name);
    if (tool.effect_class.empty() || loaded == nullptr) continue;
    const std::string_view derived = UndoClassName(UndoClassOf(*loaded));
    if (derived == tool.effect_class) continue;
    problems.Error(tool.class_place, "tools." + tool.name + ".class",
                   "what is declared makes it " + std::string(derived));
  }
  return problems.has_errors() ? nullptr : policy;
}

}  // namespace recourse
