#include "policy/language/loader.h"

#include <fmt/core.h>

#include <array>
#include <deque>
#include <map>
#include <set>

#include "policy/files/sources.h"
#include "policy/language/credential_check.h"
#include "policy/language/fields_read.h"
#include "policy/language/place_problem.h"
#include "policy/language/policy_builder.h"
#include "policy/model/route_table.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

void ReadVersion(MapReader& root) {
  const YamlNode* version = root.Need("version", "accepted: version: 1");
  if (version == nullptr) return;
  if (version->kind != YamlNode::Kind::kScalar || version->is_quoted || version->text != "1") {
    root.problems().Error(version->place, "version", "this program reads version 1; accepted: 1");
  }
}

// "X-Acme-User" adds a field, "-X-Acme-User" takes it away.
void ReadPrincipal(MapReader& root, PolicyBuilder& draft) {
  for (const LocatedText& entry : root.Texts("principal")) {
    const bool is_less = entry.text.starts_with('-');
    std::string name = ToLower(is_less ? std::string_view(entry.text).substr(1) : entry.text);
    if (!IsToken(name)) {
      root.problems().Error(entry.place, "principal",
                            "accepted: the name of a header field, or -Name for one that is not to "
                            "count");
    } else if (is_less && name == "authorization") {
      root.problems().Error(entry.place, "principal", "Authorization always counts");
    } else if (const std::string why = WhyUnseen(entry.text, name); !is_less && !why.empty()) {
      root.problems().Error(entry.place, "principal", why);
    } else {
      (is_less ? draft.policy.principal.without : draft.policy.principal.with)
          .push_back(std::move(name));
    }
  }
}

constexpr std::array<std::string_view, 8> kSettings = {
    "mode", "unlisted", "ledger", "quotas", "flow_rules", "tunnels", "principal", "callers"};

// In which file a setting of the whole policy was found.
using SeenIn = std::map<std::string_view, std::string>;

// Settings of the whole policy stand in one file only, so that no order of files decides.
void ReadSettings(MapReader& root, PolicyBuilder& draft, SeenIn& seen, const std::string& file) {
  static constexpr std::pair<std::string_view, Mode> kModes[] = {{"enforce", Mode::kEnforce},
                                                                 {"observe", Mode::kObserve}};
  static constexpr std::pair<std::string_view, UnlistedRule> kReads[] = {
      {"pass", UnlistedRule::kPass}, {"deny", UnlistedRule::kDeny}};
  static constexpr std::pair<std::string_view, UnlistedRule> kWrites[] = {
      {"guard", UnlistedRule::kGuard},
      {"pass", UnlistedRule::kPass},
      {"deny", UnlistedRule::kDeny}};
  for (const std::string_view name : kSettings) {
    if (!root.Has(name)) continue;
    const auto [at, is_first] = seen.emplace(name, file);
    if (!is_first) {
      root.problems().Error(root.PlaceOf(name), std::string(name),
                            "is given in " + at->second + " too");
    }
  }
  if (const YamlNode* ledger = root.Get("ledger")) LoadLedger(*ledger, draft);
  if (const YamlNode* quotas = root.Get("quotas")) LoadQuotas(*quotas, draft);
  if (const YamlNode* callers = root.Get("callers")) LoadCallers(*callers, draft);
  if (const YamlNode* rules = root.Get("flow_rules")) LoadFlowRules(*rules, draft);
  LoadTunnels(root, draft);
  ReadPrincipal(root, draft);
  if (const auto mode = root.OneOf("mode", kModes)) {
    draft.policy.mode = *mode;
  }
  const YamlNode* node = root.Get("unlisted");
  if (node == nullptr) return;
  MapReader unlisted(*node, "unlisted", root.problems());
  draft.policy.unlisted_reads =
      unlisted.OneOf("reads", kReads).value_or(draft.policy.unlisted_reads);
  draft.policy.unlisted_writes =
      unlisted.OneOf("writes", kWrites).value_or(draft.policy.unlisted_writes);
  unlisted.Finish();
}

struct Sections {
  const YamlNode* backends = nullptr;
  const YamlNode* tools = nullptr;
  const YamlNode* flows = nullptr;
  const YamlNode* tests = nullptr;
};

constexpr std::array<std::string_view, 4> kSections = {"backends", "tools", "flows", "callers"};

using Damaged = std::set<std::string, std::less<>>;

// Takes away what could not be read whole, lest that be complained of as missing.
void ForgetDamaged(YamlNode& root, const Damaged& damaged) {
  std::erase_if(root.members, [&](const YamlNode::Member& member) {
    const bool has_entries_of_its_own =
        member.name == "backends" || member.name == "tools" || member.name == "flows";
    return damaged.contains(member.name) &&
           (!has_entries_of_its_own || member.value.kind != YamlNode::Kind::kMap);
  });
}

// What names a section, or a setting of the whole policy, but stands among the entries of a
// section: it and all that follows belong elsewhere.
void ForgetDisplaced(YamlNode& root, Problems& problems, Damaged& damaged) {
  for (YamlNode::Member& section : root.members) {
    const auto is_one_of = [](const auto& names, const std::string& name) {
      return std::ranges::find(names, name) != names.end();
    };
    if (!is_one_of(kSections, section.name)) continue;
    auto& entries = section.value.members;
    const auto at = std::ranges::find_if(entries, [&](const YamlNode::Member& entry) {
      return entry.value.kind != YamlNode::Kind::kMap &&
             (is_one_of(kSections, entry.name) || is_one_of(kSettings, entry.name) ||
              entry.name == "tests");
    });
    if (at == entries.end()) continue;
    problems.Error(at->name_place, section.name + "." + at->name,
                   "belongs to the whole policy; write it at the beginning of the line");
    damaged.insert({section.name, at->name});
    entries.erase(at, entries.end());
  }
}

// What was read of all files so far.
struct Reading {
  std::vector<Sections> all;
  Damaged damaged;
  SeenIn seen;
};

// `damaged`: what of this file could not be read.
void ReadRoot(const YamlNode& tree, const std::string& file, const Damaged& damaged,
              PolicyBuilder& draft, Reading& reading) {
  Problems& problems = draft.problems;
  MapReader root(tree, "", problems);
  if (!damaged.contains("version")) ReadVersion(root);
  ReadSettings(root, draft, reading.seen, file);
  reading.all.push_back(
      {root.Get("backends"), root.Get("tools"), root.Get("flows"), root.Get("tests")});
  root.Finish();
  for (const std::string_view section : kSections) {
    if (problems.IsMisspelled(std::string(section))) reading.damaged.emplace(section);
  }
}

void LoadSections(const Reading& reading, PolicyBuilder& draft) {
  const auto load = [&](const YamlNode* Sections::* section,
                        void (*read)(const YamlNode&, PolicyBuilder&)) {
    for (const Sections& sections : reading.all) {
      if (sections.*section != nullptr) read(*(sections.*section), draft);
    }
  };
  // Who names something that could not be read is not to blame.
  const auto is_whole = [&](std::string_view section) {
    return !reading.damaged.contains("") && !reading.damaged.contains(section);
  };
  load(&Sections::backends, LoadBackends);
  if (is_whole("backends")) load(&Sections::tools, LoadTools);
  if (is_whole("backends") && is_whole("tools")) load(&Sections::flows, LoadFlows);
  if (!reading.damaged.empty()) return;
  load(&Sections::tests, LoadTests);
  Validate(draft);
}

void Build(const std::vector<PolicySource>& sources, PolicyBuilder& draft,
           std::deque<YamlNode>& trees) {
  Problems& problems = draft.problems;
  Reading reading;
  for (const PolicySource& source : sources) {
    const std::size_t file = problems.AddFile(source.name);
    RefuseSecrets(file, source.text, problems);
    const std::size_t errors_before = problems.errors();
    YamlText read = ReadYamlText(file, source.text, problems);
    reading.damaged.insert(read.damaged.begin(), read.damaged.end());
    ForgetDisplaced(read.root, problems, reading.damaged);
    ForgetDamaged(read.root, read.damaged);
    const YamlNode& tree = trees.emplace_back(std::move(read.root));
    if (read.damaged.contains("")) continue;
    if (tree.kind == YamlNode::Kind::kNull) {
      if (problems.errors() == errors_before) {
        problems.Error({file, 1, 1}, "version",
                       "is missing: the file is empty; accepted: version: 1");
      }
      continue;
    }
    ReadRoot(tree, source.name, read.damaged, draft, reading);
  }
  LoadSections(reading, draft);
}

std::shared_ptr<Policy> Finished(PolicyBuilder& draft) {
  auto policy = std::make_shared<Policy>(std::move(draft.policy));
  policy->fields_read = FieldsOfWords(*policy);
  policy->routes = std::make_unique<const RouteTable>(*policy, draft.intercepted);
  return policy;
}

LoadedPolicy LoadSources(const std::vector<PolicySource>& sources, TlsFiles files) {
  Problems problems;
  PolicyBuilder draft(problems);
  draft.tls_files = files;
  std::deque<YamlNode> trees;
  Build(sources, draft, trees);
  LoadedPolicy loaded;
  if (!problems.has_errors()) {
    loaded.policy = Finished(draft);
    loaded.policy->digest = DigestOf(sources);
    loaded.policy->version = ToHex(loaded.policy->digest).substr(0, 16);
  }
  for (LocatedText& named : draft.approvers) {
    loaded.approvers.push_back(
        {std::move(named.text), problems.At(named.place, std::move(named.key))});
  }
  loaded.problems = problems.Take();
  return loaded;
}

}  // namespace

LoadedPolicy LoadPolicyFiles(const PolicySources& sources, TlsFiles files) {
  if (sources.problems.empty()) return LoadSources(sources.files, files);
  LoadedPolicy loaded = sources.files.empty() ? LoadedPolicy{} : LoadSources(sources.files, files);
  loaded.policy = nullptr;
  loaded.problems.insert(loaded.problems.begin(), sources.problems.begin(), sources.problems.end());
  return loaded;
}

LoadedPolicy LoadPolicy(const std::string& path, TlsFiles files) {
  return LoadPolicyFiles(ReadPolicyTwice(path), files);
}

std::shared_ptr<Policy> LoadPolicyTree(const YamlNode& root, Problems& problems) {
  PolicyBuilder draft(problems);
  Reading reading;
  ReadRoot(root, "", {}, draft, reading);
  LoadSections(reading, draft);
  return problems.has_errors() ? nullptr : Finished(draft);
}

LoadedPolicy LoadPolicyText(const std::string& name, const std::string& yaml) {
  return LoadSources({{name, yaml}}, TlsFiles::kIgnore);
}

}  // namespace recourse
