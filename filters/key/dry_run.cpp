#include "filters/key/dry_run.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace recourse {
namespace {

constexpr std::array<std::string_view, 11> kWords{
    "dryrun",  "validateonly", "validationonly", "checkonly", "testonly", "simulate",
    "preview", "previewonly",  "noop",           "whatif",    "tentative"};

// "X-Dry_Run" as "dryrun".
std::string PlainName(std::string_view name) {
  std::string plain = ToLower(name);
  std::erase_if(plain, [](char c) { return c == '-' || c == '_' || c == '.'; });
  if (name.starts_with("X-") || name.starts_with("x-")) plain.erase(0, 1);
  return plain;
}

bool Names(std::string_view name) {
  const std::string plain = PlainName(name);
  return std::ranges::any_of(kWords, [&](std::string_view word) { return plain == word; }) ||
         plain.ends_with("dryrun") || plain.ends_with("validateonly");
}

bool IsNo(std::string_view value) {
  const std::string lower = ToLower(TrimBlanks(value));
  return lower == "false" || lower == "0" || lower == "no" || lower == "off";
}

}  // namespace

bool MayBeDryRun(const Headers& headers, const Pairs& query, const CallBody& body) {
  const auto asks = [](const auto& pair) { return Names(pair.first) && !IsNo(pair.second); };
  if (std::ranges::any_of(headers, asks) || std::ranges::any_of(query, asks)) return true;
  const auto prefers = [](const Header& field) {
    const std::string value = ToLower(field.second);
    return EqualsIgnoreCase(field.first, "Prefer") &&
           (value.contains("dry-run") || value.contains("tx=rollback"));
  };
  if (std::ranges::any_of(headers, prefers)) return true;
  const bool has_members = body.form == BodyForm::kJson && body.json.kind == Json::Kind::kObject;
  return has_members && std::ranges::any_of(body.json.members, [](const auto& member) {
           const auto& [name, value] = member;
           const bool is_no = value.kind == Json::Kind::kFalse || value.kind == Json::Kind::kNull ||
                              IsNo(value.text);
           return Names(name) && !is_no;
         });
}

}  // namespace recourse
