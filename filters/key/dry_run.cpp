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

// Longer than every word, so that of a name only its end has to be kept.
using NameRoom = std::array<char, 16>;

// "X-Dry_Run" as "dryrun", at the end of `room`. Without an allocation: every write asks this of
// all its names.
std::string_view PlainName(std::string_view name, NameRoom& room) {
  if (name.starts_with("X-") || name.starts_with("x-")) name.remove_prefix(2);
  std::size_t begin = room.size();
  for (std::size_t i = name.size(); i > 0 && begin > 0; --i) {
    const char c = name[i - 1];
    if (c == '-' || c == '_' || c == '.') continue;
    room[--begin] = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }
  return {room.data() + begin, room.size() - begin};
}

bool Names(std::string_view name) {
  NameRoom room;
  const std::string_view plain = PlainName(name, room);
  return std::ranges::find(kWords, plain) != kWords.end() || plain.ends_with("dryrun") ||
         plain.ends_with("validateonly");
}

bool IsNo(std::string_view value) {
  constexpr std::array<std::string_view, 4> kNo{"false", "0", "no", "off"};
  const std::string_view trimmed = TrimBlanks(value);
  return std::ranges::any_of(kNo,
                             [&](std::string_view no) { return EqualsIgnoreCase(trimmed, no); });
}

}  // namespace

bool MayBeDryRun(const Headers& headers, const Pairs& query, const CallBody& body) {
  const auto asks = [](const auto& pair) { return Names(pair.first) && !IsNo(pair.second); };
  if (std::ranges::any_of(headers, asks) || std::ranges::any_of(query, asks)) return true;
  const auto prefers = [](const Header& field) {
    if (!EqualsIgnoreCase(field.first, "Prefer")) return false;
    const std::string value = ToLower(field.second);
    return value.contains("dry-run") || value.contains("tx=rollback");
  };
  if (std::ranges::any_of(headers, prefers)) return true;
  const bool has_members = body.form == BodyForm::kJson && body.json.kind == Json::Kind::kObject;
  return has_members && std::ranges::any_of(body.json.members, [](const auto& member) {
           const auto& [name, value] = member;
           if (!Names(name)) return false;
           return value.kind != Json::Kind::kFalse && value.kind != Json::Kind::kNull &&
                  !IsNo(value.text);
         });
}

}  // namespace recourse
