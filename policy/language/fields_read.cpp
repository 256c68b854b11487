#include "policy/language/fields_read.h"

#include <algorithm>
#include <array>

#include "policy/model/method_override.h"
#include "policy/model/places_read.h"
#include "policy/model/principal.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

// Beside credentials and tenants: what Recourse itself acts on, or keeps from backends.
constexpr std::array<std::string_view, 11> kOwn{
    "content-encoding",  "content-length",   "content-type",  "http2-settings",
    "idempotency-key",   "keep-alive",       "last-event-id", "max-forwards",
    "transfer-encoding", "x-accel-redirect", "x-real-ip"};
constexpr std::array<std::string_view, 4> kOwnPrefixes{"idempotent-", "mcp-", "recourse-",
                                                       "x-forwarded-"};

bool IsOddSign(char c) {
  return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z');
}

bool IsOwn(std::string_view name) {
  return IsCredentialField(name) || IsPrincipalField(name) || IsTenantField(name) ||
         IsOverrideField(name) || std::ranges::find(kOwn, name) != kOwn.end() ||
         std::ranges::any_of(kOwnPrefixes,
                             [name](std::string_view prefix) { return name.starts_with(prefix); });
}

void AddFieldsOf(const Tool& tool, std::vector<std::string>& names) {
  for (const Selector& place : PlacesRead(tool)) {
    if (place.source == Selector::Source::kHeader) names.push_back(ToLower(place.name));
  }
  for (const Selector& place : tool.redact) {
    if (place.source == Selector::Source::kHeader) names.push_back(ToLower(place.name));
  }
  for (const SecretHeader& secret : tool.secrets) names.push_back(ToLower(secret.name));
  if (!tool.approval) return;
  for (const SecretHeader& secret : tool.approval->secrets) names.push_back(ToLower(secret.name));
  for (const RequestTemplate::Piece& piece : tool.approval->summary) {
    if (piece.selector && piece.selector->source == Selector::Source::kHeader) {
      names.push_back(ToLower(piece.selector->name));
    }
  }
}

}  // namespace

std::vector<std::string> FieldsOfWords(const Policy& policy) {
  std::vector<std::string> names;
  for (const Backend& backend : policy.backends) {
    if (backend.key.at.is_field()) names.push_back(ToLower(backend.key.at.name));
    for (const SecretHeader& secret : backend.secrets) names.push_back(ToLower(secret.name));
  }
  names.insert(names.end(), policy.principal.with.begin(), policy.principal.with.end());
  if (!policy.callers.field.empty()) names.push_back(ToLower(policy.callers.field));
  if (policy.callers.jwt) names.push_back(ToLower(policy.callers.jwt->field));
  for (const Tool& tool : policy.tools) AddFieldsOf(tool, names);
  const auto add = [&names](const ScopeRule& place) {
    if (place.kind == ScopeRule::Kind::kHeader) names.push_back(ToLower(place.name));
  };
  for (const ScopeRule& place : policy.flow_rules.parent) add(place);
  add(policy.flow_rules.without_trace.place);
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

std::string ReadTwin(const Policy& policy, std::string_view name) {
  if (std::ranges::none_of(name, IsOddSign)) return {};
  std::string twin = ToLower(name);
  std::ranges::replace_if(twin, IsOddSign, '-');
  const auto is_twin = [&twin](std::string field) {
    std::ranges::replace_if(field, IsOddSign, '-');
    return field == twin;
  };
  // A field that the policy itself writes so has one reading: it is meant as it is.
  const bool is_named = std::ranges::binary_search(policy.fields_read, ToLower(name));
  const bool is_read = IsOwn(twin) || std::ranges::any_of(policy.fields_read, is_twin);
  return is_read && !is_named ? twin : std::string();
}

std::string WhyTwinRefused(std::string_view twin) {
  return "a field has another sign for '-' in its name, such as '_' or '.', where " +
         std::string(twin) + " is read: many servers take one for the other";
}

}  // namespace recourse
