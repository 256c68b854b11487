#include "proxy/inject/policy_review.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "policy/language/loader.h"
#include "proxy/inject/policy_changes.h"
#include "proxy/reload/policy_reload.h"

namespace recourse {
namespace {

// API servers cut what is longer than a few KiB.
constexpr std::size_t kToldMax = 12;

std::string_view PolicyTextIn(const Json& config_map, const std::string& key) {
  const Json* const data = config_map.Find("data");
  return data == nullptr ? std::string_view() : TextOf(*data, key);
}

LoadedPolicy Loaded(std::string_view text, const std::string& key) {
  PolicySources sources;
  sources.files.push_back({key, std::string(text)});
  return LoadPolicyFiles(sources);
}

// At most kToldMax of them, and how many there are more.
std::vector<std::string> Told(std::vector<std::string> lines) {
  if (lines.size() <= kToldMax) return lines;
  const std::size_t more = lines.size() - kToldMax;
  lines.resize(kToldMax);
  lines.push_back(fmt::format("and {} more", more));
  return lines;
}

std::vector<std::string> LinesOf(const LoadedPolicy& loaded, PolicyProblem::Severity severity) {
  std::vector<std::string> lines;
  for (const PolicyProblem& problem : loaded.problems) {
    if (problem.severity == severity) lines.push_back(problem.ToString());
  }
  return Told(std::move(lines));
}

// Of pods that run with the policy of before, if it is one.
void AddChanges(std::string_view before, const LoadedPolicy& was, std::string_view after,
                const LoadedPolicy& is, std::vector<std::string>& warnings) {
  if (!was.ok()) return;
  if (const std::string why = WhyNotTaken(*is.policy, *was.policy); !why.empty()) {
    warnings.push_back("pods that run keep the policy of before until they are restarted: " + why);
    return;
  }
  const auto changes = Told(PolicyChanges(before, after));
  if (changes.empty()) return;
  warnings.push_back(
      fmt::format("pods that run take this within minutes: {}", fmt::join(changes, ", ")));
}

}  // namespace

PolicyVerdict JudgePolicy(const Json& config_map, const Json* before, const std::string& key) {
  PolicyVerdict verdict;
  const std::string_view text = PolicyTextIn(config_map, key);
  const std::string_view old = IsObject(before) ? PolicyTextIn(*before, key) : std::string_view();
  if (text.empty()) {
    verdict.refusal =
        fmt::format("it has the label recourse.dev/policy and no text {}, which pods read", key);
    return verdict;
  }
  if (text == old) return verdict;  // what is in force already may be kept
  const LoadedPolicy loaded = Loaded(text, key);
  if (!loaded.ok()) {
    verdict.refusal =
        fmt::format("{}", fmt::join(LinesOf(loaded, PolicyProblem::Severity::kError), "\n"));
    return verdict;
  }
  verdict.warnings = LinesOf(loaded, PolicyProblem::Severity::kWarning);
  if (!old.empty()) AddChanges(old, Loaded(old, key), text, loaded, verdict.warnings);
  return verdict;
}

}  // namespace recourse
