#include "proxy/admin/access/own_call.h"

#include <algorithm>

#include "proxy/base/crypto/jwt.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

constexpr std::string_view kBearer = "Bearer ";

void AddText(const Json& claims, const std::string& claim, std::vector<std::string>& names) {
  const Json* const value = claim.empty() ? nullptr : ClaimOf(claims, claim);
  if (value != nullptr && value->kind == Json::Kind::kString && !value->text.empty()) {
    names.push_back(value->text);
  }
}

// Where a token named the caller.
std::vector<std::string> NamesInToken(const AskedCall& call, const Operator& who,
                                      const CallersRule& callers) {
  std::vector<std::string> names;
  if (!callers.jwt || call.fields == nullptr || !call.caller.starts_with("jwt:")) return names;
  for (const auto& [field, value] : *call.fields) {
    if (!EqualsIgnoreCase(field, callers.jwt->field)) continue;
    std::string_view token = TrimBlanks(value);
    if (EqualsIgnoreCase(token.substr(0, kBearer.size()), kBearer)) {
      token = TrimBlanks(token.substr(kBearer.size()));
    }
    const auto jwt = ParseJwt(token);
    if (!jwt) continue;
    AddText(jwt->claims, who.name_claim, names);
    AddText(jwt->claims, callers.jwt->claim, names);
  }
  return names;
}

}  // namespace

std::vector<std::string> NamesOf(const Operator& who, const CallersRule& callers) {
  std::vector<std::string> names{who.name};
  if (!who.certificate.empty()) names.push_back(who.certificate);
  if (who.claims != nullptr) {
    AddText(*who.claims, who.name_claim, names);
    if (callers.jwt) AddText(*who.claims, callers.jwt->claim, names);
  }
  return names;
}

std::string OwnNameIn(const AskedCall& call, const Operator& who, const CallersRule& callers) {
  const auto asker = NamesInToken(call, who, callers);
  for (std::string& name : NamesOf(who, callers)) {
    const auto is_same = [&](const std::string& other) { return AreOneName(name, other); };
    const bool is_own = IsPartOfCaller(name, call.caller) || std::ranges::any_of(asker, is_same);
    if (is_own) return std::move(name);
  }
  return {};
}

}  // namespace recourse
