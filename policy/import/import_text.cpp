#include "policy/import/import_text.h"

#include <algorithm>
#include <array>

#include "policy/language/loader.h"

namespace recourse {
namespace {

constexpr std::size_t kCommentBytesMax = 160;

}  // namespace

std::string CommentText(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kCommentBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(byte < 0x20 || byte >= 0x7f ? ' ' : c);
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string QuotedText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out + '"';
}

std::string LegalName(std::string_view text, std::size_t most) {
  std::string out;
  for (const char c : text) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '.' || c == '-';
    if (good) {
      out.push_back(c);
    } else if (!out.empty() && out.back() != '_') {
      out.push_back('_');
    }
  }
  while (out.ends_with('_')) out.pop_back();
  return out.substr(0, most);
}

std::string UniqueName(std::string name, std::set<std::string>& taken) {
  if (name == "unlisted" || name.starts_with("unlisted.")) name = "op_" + name;
  const std::string first = name;
  for (int i = 2; !taken.insert(name).second; ++i) name = first + "_" + std::to_string(i);
  return name;
}

bool LooksLikeIdName(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kWhole{
      "id", "key", "uuid", "guid", "reference", "ref", "sku", "email", "number"};
  static constexpr std::array<std::string_view, 10> kEnds{
      "_id", "-id", "Id", "ID", "_ref", "Ref", "_reference", "Reference", "_uuid", "_key"};
  return std::ranges::any_of(kWhole, [&](auto word) { return EqualsIgnoreCase(word, name); }) ||
         std::ranges::any_of(kEnds, [&](auto end) { return name.ends_with(end); });
}

std::string ShapeOfPath(std::string_view path) {
  std::string out;
  bool is_name = false;
  for (const char c : path) {
    if (c == '}') is_name = false;
    if (!is_name) out.push_back(c);
    if (c == '{') is_name = true;
  }
  return out;
}

std::string ErrorLines(Problems& problems) {
  std::string out;
  for (const PolicyProblem& problem : problems.Take()) {
    if (problem.severity != PolicyProblem::Severity::kError) continue;
    out += (out.empty() ? "" : "\n") + problem.ToString();
  }
  return out;
}

bool LeaveOutRefused(const std::string& policy, std::vector<MadeTool>& tools,
                     std::vector<std::string>& left_out) {
  const LoadedPolicy loaded = LoadPolicyText("policy.yaml", policy);
  bool found = false;
  for (const PolicyProblem& problem : loaded.problems) {
    if (problem.severity != PolicyProblem::Severity::kError) continue;
    const auto at = std::ranges::find_if(tools, [&](const MadeTool& tool) {
      return !tool.is_declared && !tool.text.empty() &&
             (problem.key == "tools." + tool.name ||
              problem.key.starts_with("tools." + tool.name + "."));
    });
    if (at == tools.end()) continue;
    left_out.push_back(at->name + ": " + problem.message);
    at->text.clear();
    found = true;
  }
  return found;
}

}  // namespace recourse
