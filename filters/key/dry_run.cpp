#include "filters/key/dry_run.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "proxy/base/http/dry_run_names.h"

namespace recourse {
namespace {

bool IsNo(std::string_view value) {
  constexpr std::array<std::string_view, 4> kNo{"false", "0", "no", "off"};
  const std::string_view trimmed = TrimBlanks(value);
  return std::ranges::any_of(kNo,
                             [&](std::string_view no) { return EqualsIgnoreCase(trimmed, no); });
}

}  // namespace

bool MayBeDryRun(const Headers& headers, const Pairs& query, const CallBody& body) {
  const auto asks = [](const auto& pair) { return NamesDryRun(pair.first) && !IsNo(pair.second); };
  if (std::ranges::any_of(headers, asks) || std::ranges::any_of(query, asks)) return true;
  const auto prefers = [](const Header& field) {
    if (!EqualsIgnoreCase(field.first, "Prefer")) return false;
    const std::string value = ToLower(field.second);
    return value.contains(kDryRunPreference) || value.contains("tx=rollback");
  };
  if (std::ranges::any_of(headers, prefers)) return true;
  const bool has_members = body.form == BodyForm::kJson && body.json.kind == Json::Kind::kObject;
  return has_members && std::ranges::any_of(body.json.members, [](const auto& member) {
           const auto& [name, value] = member;
           if (!NamesDryRun(name)) return false;
           return value.kind != Json::Kind::kFalse && value.kind != Json::Kind::kNull &&
                  !IsNo(value.text);
         });
}

}  // namespace recourse
