// The sections about what is kept, and how much of it one caller may cause.
#include <algorithm>
#include <array>
#include <charconv>

#include "policy/language/load_rules.h"
#include "policy/language/policy_builder.h"
#include "policy/uri/ledger_url.h"

namespace recourse {
namespace {

constexpr std::string_view kCallerHelp =
    "a caller's name is 1 to 256 visible ASCII characters, as its certificate and `callers` make "
    "it";

bool IsCaller(std::string_view name) {
  return !name.empty() && name.size() <= limits::kCallerBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

Quota ReadQuota(const YamlNode& node, const std::string& key, const Quota& standard,
                PolicyBuilder& draft) {
  MapReader map(node, key, draft.problems);
  Quota quota = standard;
  if (const auto count = map.Count("writes_in_flight")) quota.writes_in_flight = *count;
  if (const auto count = map.Count("operations_per_hour")) quota.operations_per_hour = *count;
  if (const auto bytes = map.Bytes("stored_bytes")) quota.stored_bytes = *bytes;
  if (const auto count = map.Count("pending_approvals")) quota.pending_approvals = *count;
  map.Finish();
  return quota;
}

constexpr Millis kLedgerWaitMin{100}, kLedgerWaitMax{30'000};

bool IsGroup(std::string_view name) {
  return !name.empty() && name.size() <= 128 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-/").contains(c);
  });
}

// What only a shared ledger has.
void CheckShared(const MapReader& map, const LedgerUrl& url, PolicyBuilder& draft) {
  if (url.has_password) {
    draft.problems.Warn(map.PlaceOf("url"), map.KeyOf("url"),
                        "holds a password, which everybody who reads the policy knows; name a "
                        "file with password_file");
  }
  if (draft.policy.ledger_place.group.empty() && !map.Has("group")) {
    draft.problems.ErrorOfAbsent(
        map.PlaceOf("url"), map.KeyOf("group"),
        "say which pods do each other's work, e.g. NAMESPACE/WORKLOAD: those of "
        "one policy, with the same secrets");
  }
}

void ReadPlace(MapReader& map, PolicyBuilder& draft) {
  LedgerPlace& place = draft.policy.ledger_place;
  place.url = map.Text("url").value_or(std::string());
  place.password_file = map.Text("password_file").value_or(std::string());
  place.group = map.Text("group").value_or(std::string());
  place.wait = map.Duration("wait", kLedgerWaitMin).value_or(place.wait);
  if (place.wait > kLedgerWaitMax) {
    draft.problems.Error(map.PlaceOf("wait"), map.KeyOf("wait"), "accepted: 100ms to 30s");
  }
  if (!place.group.empty() && !IsGroup(place.group)) {
    draft.problems.Error(map.PlaceOf("group"), map.KeyOf("group"),
                         "a group's name is 1 to 128 letters, digits, '.', '_', '-' and '/', such "
                         "as shop/checkout");
  }
  if (place.url.empty()) return;
  const auto url = ParseLedgerUrl(place.url);
  if (!url) {
    draft.problems.Error(map.PlaceOf("url"), map.KeyOf("url"), url.error());
  } else if (url->is_shared()) {
    CheckShared(map, *url, draft);
  }
}

}  // namespace

std::optional<std::uint64_t> ParseByteCount(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, int>, 5> kUnits{
      {{"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
  std::uint64_t count = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (ec != std::errc() || (text.size() > 1 && text[0] == '0' && count != 0)) return std::nullopt;
  for (const auto& [name, shift] : kUnits) {
    if (unit == name && count <= (limits::kPolicyBytesMax >> shift)) return count << shift;
  }
  return std::nullopt;
}

void LoadLedger(const YamlNode& section, PolicyBuilder& draft) {
  MapReader map(section, "ledger", draft.problems);
  LedgerRule& rule = draft.policy.ledger;
  rule.retention = map.Duration("retention", limits::kRetentionMin).value_or(rule.retention);
  rule.tombstones = map.Duration("tombstones", limits::kRetentionMin).value_or(rule.tombstones);
  rule.keep_headers = ReadKeepHeaders(map);
  ReadPlace(map, draft);
  map.Finish();
  if (rule.retention < limits::kRetentionShort) {
    draft.problems.Warn(map.PlaceOf("retention"), map.KeyOf("retention"),
                        "answers are forgotten within the hour; a repeat that comes later is told "
                        "that its key expired");
  }
}

void LoadQuotas(const YamlNode& section, PolicyBuilder& draft) {
  MapReader map(section, "quotas", draft.problems);
  Quotas& quotas = draft.policy.quotas;
  if (const YamlNode* standard = map.Get("default")) {
    quotas.standard = ReadQuota(*standard, map.KeyOf("default"), Quota(), draft);
  }
  const YamlNode* callers = map.Get("callers");
  map.Finish();
  if (callers == nullptr) return;
  const std::string key = map.KeyOf("callers");
  if (callers->kind != YamlNode::Kind::kMap) {
    draft.problems.Error(callers->place, key, "a map of callers to quotas is accepted here");
    return;
  }
  for (const auto& member : callers->members) {
    const std::string member_key = JoinKey(key, member.name);
    if (!IsCaller(member.name)) {
      draft.problems.Error(member.name_place, member_key, std::string(kCallerHelp));
    }
    draft.quota_callers.push_back({member.name, member.name_place, member_key});
    quotas.callers[member.name] = ReadQuota(member.value, member_key, quotas.standard, draft);
  }
}

}  // namespace recourse
