#include "policy/undo/tenant_fields.h"

#include <algorithm>
#include <string>

#include "policy/model/principal.h"
#include "proxy/base/http/field_reach.h"

namespace recourse {
namespace {

// PostgREST has the schema of a read and that of a write in fields of their own.
constexpr std::string_view kReadsSchema = "Accept-Profile", kWritesSchema = "Content-Profile";

}  // namespace

bool AddTenants(const Headers& of_call, const std::vector<Selector>& redact,
                std::string_view method, Headers& fields) {
  const bool is_read = method == "GET" || method == "HEAD";
  bool has_all = true;
  const auto add = [&](std::string_view name, const std::string& value, bool is_redacted) {
    if (FindHeader(fields, name) != nullptr) return;
    has_all = has_all && !is_redacted;
    if (!is_redacted) fields.emplace_back(name, value);
  };
  for (const auto& [name, value] : of_call) {
    if (!IsTenantField(name) || IsCredentialField(name)) continue;
    if (ReachOf(name) != FieldReach::kBackend) continue;  // nor did the call have it
    const bool is_redacted = std::ranges::any_of(redact, [&](const Selector& place) {
      return place.source == Selector::Source::kHeader && EqualsIgnoreCase(place.name, name);
    });
    if (is_read && EqualsIgnoreCase(name, kWritesSchema)) add(kReadsSchema, value, is_redacted);
    add(name, value, is_redacted);
  }
  return has_all;
}

}  // namespace recourse
