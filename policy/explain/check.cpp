#include "policy/explain/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "policy/explain/explain.h"
#include "policy/files/excerpt.h"
#include "policy/language/credential_check.h"
#include "policy/model/policy.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

constexpr int kInvalid = 3;
constexpr std::string_view kObserveNote = ", mode observe (nothing is held back)";

using Severity = PolicyProblem::Severity;

std::string Counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

struct Checked {
  PolicySources sources;
  LoadedPolicy loaded;
  std::vector<PolicyProblem> problems;
  std::size_t errors = 0, warnings = 0;
  bool is_valid = false;  // and passes
};

Checked Check(PolicySources sources, const FurtherCheck& further, bool is_strict) {
  Checked made;
  made.sources = std::move(sources);
  made.loaded = LoadPolicyFiles(made.sources, TlsFiles::kCheck);
  made.problems = made.loaded.problems;
  if (further) {
    for (PolicyProblem& problem : further(made.loaded)) made.problems.push_back(std::move(problem));
  }
  for (const PolicyProblem& problem : made.problems) {
    ++(problem.severity == Severity::kError ? made.errors : made.warnings);
  }
  made.is_valid = made.loaded.ok() && made.errors == 0 && (!is_strict || made.warnings == 0);
  return made;
}

// The files that excerpts are taken from: one that holds what it must not is not shown at all.
std::vector<const PolicySource*> Shown(const PolicySources& sources) {
  std::vector<const PolicySource*> shown;
  for (const PolicySource& source : sources.files) {
    if (!HoldsSecret(source.text)) shown.push_back(&source);
  }
  return shown;
}

std::size_t WritesOf(const Policy& policy) {
  return static_cast<std::size_t>(std::ranges::count(policy.tools, Effect::kWrite, &Tool::effect));
}

void PrintText(const std::string& path, const Checked& checked, std::ostream& out) {
  const auto shown = Shown(checked.sources);
  for (const PolicyProblem& problem : checked.problems) {
    const auto source = std::ranges::find(shown, problem.file, &PolicySource::name);
    out << problem.ToString() << '\n';
    if (source != shown.end()) out << ExcerptFor(problem, (*source)->text);
  }
  const std::string warnings = Counted(checked.warnings, "warning");
  if (!checked.is_valid) {
    const bool is_for_warnings = checked.loaded.ok() && checked.errors == 0;
    out << fmt::format("{}: invalid: {}, {}{}\n", path, Counted(checked.errors, "error"), warnings,
                       is_for_warnings ? ", which --strict takes for errors" : "");
    return;
  }
  const Policy& policy = *checked.loaded.policy;
  const std::size_t writes = WritesOf(policy);
  const std::string tunnels =
      policy.tunnels.rules.empty() ? "" : Counted(policy.tunnels.rules.size(), "tunnel") + ", ";
  out << fmt::format("{}: valid, version {}{}: {}, {} ({} read, {} write), {}, {}, {}{}\n", path,
                     policy.version, policy.mode == Mode::kObserve ? kObserveNote : "",
                     Counted(policy.backends.size(), "backend"),
                     Counted(policy.tools.size(), "tool"), policy.tools.size() - writes, writes,
                     Counted(policy.flows.size(), "flow"), Counted(policy.tests.size(), "test"),
                     tunnels, warnings);
  for (const Tool& tool : policy.tools) {
    const std::string_view rule = BodyRuleOf(tool);
    if (!rule.empty()) out << "tools." << tool.name << ": " << rule << '\n';
  }
}

void PutProblem(std::string& out, const PolicyProblem& problem) {
  JsonObject json(out);
  json.Text("severity", problem.severity == Severity::kError ? "error" : "warning");
  json.Text("file", problem.file);
  json.Number("line", problem.line);
  json.Number("column", problem.column);
  json.Text("key", problem.key);
  json.Text("message", problem.message);
}

std::string CheckJson(const std::string& path, const Checked& checked) {
  return ObjectText([&](JsonObject& json) {
    json.Text("policy", path);
    json.Bool("valid", checked.is_valid);
    json.Number("errors", checked.errors);
    json.Number("warnings", checked.warnings);
    json.Each("problems", checked.problems, PutProblem);
    if (checked.loaded.ok()) {
      const Policy& policy = *checked.loaded.policy;
      json.Text("policy_version", policy.version);
      json.Text("mode", policy.mode == Mode::kObserve ? "observe" : "enforce");
      json.Number("backends", policy.backends.size());
      json.Number("tools", policy.tools.size());
      json.Number("writes", WritesOf(policy));
      json.Number("flows", policy.flows.size());
      json.Number("tests", policy.tests.size());
    }
  });
}

}  // namespace

int RunPolicyCheck(const std::string& path, std::ostream& out, const FurtherCheck& further,
                   CheckOptions options) {
  const Checked checked = Check(ReadPolicyTwice(path), further, options.is_strict);
  switch (options.form) {
    case CheckForm::kText:
      PrintText(path, checked, out);
      break;
    case CheckForm::kJson:
      out << CheckJson(path, checked) << '\n';
      break;
    case CheckForm::kSarif:
      out << SarifOf(checked.sources, checked.problems) << '\n';
      break;
  }
  return checked.is_valid ? 0 : kInvalid;
}

CheckedPolicy CheckPolicyFiles(const std::string& name, PolicySources sources) {
  const Checked checked = Check(std::move(sources), {}, false);
  std::ostringstream text;
  PrintText(name, checked, text);
  return {checked.errors, checked.warnings, checked.is_valid, std::move(text).str()};
}

}  // namespace recourse
