// SARIF 2.1.0 (OASIS): what is put here follows its chapter 3.
#include <algorithm>
#include <set>

#include "policy/explain/check.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

constexpr std::string_view kSarifSchema = "https://json.schemastore.org/sarif-2.1.0.json";

// The section of the policy that a problem is about, which is stable while messages are not.
std::string RuleOf(const PolicyProblem& problem) {
  const std::string section = problem.key.substr(0, problem.key.find_first_of(".["));
  return "policy/" + (section.empty() ? "file" : section);
}

// 3.4.4: a URI reference, relative where the path is.
std::string UriOf(const std::string& path) {
  static constexpr std::string_view kPlain = "-._~/";
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                          (byte >= 'A' && byte <= 'Z') || kPlain.find(c) != std::string_view::npos;
    if (is_plain) {
      uri += c;
    } else {
      static constexpr char kUpperHex[] = "0123456789ABCDEF";
      uri += {'%', kUpperHex[byte >> 4], kUpperHex[byte & 15]};
    }
  }
  return uri;
}

// Code points, as columnKind says; ours are bytes.
int ColumnOf(const PolicySources& sources, const PolicyProblem& problem) {
  const auto source = std::ranges::find(sources.files, problem.file, &PolicySource::name);
  if (source == sources.files.end()) return problem.column;
  std::string_view text = source->text;
  for (int line = 1; line < problem.line; ++line) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return problem.column;
    text.remove_prefix(end + 1);
  }
  const auto before = text.substr(0, static_cast<std::size_t>(std::max(problem.column - 1, 0)));
  const auto inner = std::ranges::count_if(
      before, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
  return problem.column - static_cast<int>(inner);
}

void PutLocation(std::string& out, const PolicySources& sources, const PolicyProblem& problem) {
  JsonObject location(out);
  {
    JsonObject physical(location.Value("physicalLocation"));
    JsonObject(physical.Value("artifactLocation")).Text("uri", UriOf(problem.file));
    if (problem.line > 0) {
      JsonObject region(physical.Value("region"));
      region.Number("startLine", problem.line);
      if (problem.column > 0) region.Number("startColumn", ColumnOf(sources, problem));
    }
  }
  if (problem.key.empty()) return;
  location.Each("logicalLocations", std::vector{problem.key},
                [](std::string& to, const std::string& key) {
                  JsonObject(to).Text("fullyQualifiedName", key);
                });
}

void PutResult(std::string& out, const PolicySources& sources, const PolicyProblem& problem,
               const std::set<std::string>& rules) {
  JsonObject result(out);
  const std::string rule = RuleOf(problem);
  result.Text("ruleId", rule);
  result.Number("ruleIndex", std::distance(rules.begin(), rules.find(rule)));
  result.Text("level", problem.severity == PolicyProblem::Severity::kError ? "error" : "warning");
  JsonObject(result.Value("message"))
      .Text("text", problem.key.empty() ? problem.message : problem.key + ": " + problem.message);
  // A problem of no file has no location (3.27.12: they may be missing).
  if (problem.file.empty()) return;
  result.Each("locations", std::vector{problem},
              [&](std::string& to, const PolicyProblem& of) { PutLocation(to, sources, of); });
}

void PutDriver(std::string& out, const std::set<std::string>& rules) {
  JsonObject driver(out);
  driver.Text("name", "recourse policy check");
  driver.Text("version", RECOURSE_VERSION);
  driver.Each("rules", rules, [](std::string& to, const std::string& rule) {
    JsonObject json(to);
    json.Text("id", rule);
    JsonObject(json.Value("shortDescription"))
        .Text("text", "What is wrong with " + rule.substr(rule.find('/') + 1) + " of a policy");
  });
}

}  // namespace

std::string SarifOf(const PolicySources& sources, const std::vector<PolicyProblem>& problems) {
  std::set<std::string> rules;
  for (const PolicyProblem& problem : problems) rules.insert(RuleOf(problem));
  return ObjectText([&](JsonObject& log) {
    log.Text("$schema", kSarifSchema);
    log.Text("version", "2.1.0");
    log.Each("runs", std::vector{0}, [&](std::string& to, int) {
      JsonObject run(to);
      {
        JsonObject tool(run.Value("tool"));
        PutDriver(tool.Value("driver"), rules);
      }
      run.Text("columnKind", "unicodeCodePoints");
      run.Each("results", problems, [&](std::string& result, const PolicyProblem& problem) {
        PutResult(result, sources, problem, rules);
      });
    });
  });
}

}  // namespace recourse
