#include "filters/call/scope_text.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "policy/model/principal.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

std::string HeaderText(const Headers& headers, const std::string& name) {
  CallValues values;
  values.headers = &headers;
  const std::optional<Json> value = Select({Selector::Source::kHeader, name, {}}, values);
  return value ? value->text : std::string();
}

// The member of the W3C Baggage header; empty when absent or there more than once.
std::string BaggageText(const Headers& headers, std::string_view member) {
  std::string found;
  int count = 0;
  for (const auto& [name, field] : headers) {
    if (!EqualsIgnoreCase(name, "baggage")) continue;
    std::string_view rest = field;
    while (!rest.empty()) {
      const auto comma = std::min(rest.find(','), rest.size());
      const std::string_view entry = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      const std::string_view pair = entry.substr(0, entry.find(';'));
      const auto equals = pair.find('=');
      if (equals == std::string_view::npos || TrimBlanks(pair.substr(0, equals)) != member) {
        continue;
      }
      ++count;
      if (!PercentDecode(TrimBlanks(pair.substr(equals + 1)), found)) return {};
    }
  }
  return count == 1 ? found : std::string();
}

std::string BodyText(const CallBody& body, const std::string& pointer) {
  const Json* values = body.values();
  const Json* value = values == nullptr ? nullptr : AtPointer(*values, pointer);
  if (value == nullptr || !value->is_scalar() || value->kind == Json::Kind::kNull) return {};
  return CanonicalJson(*value);
}

std::string SessionText(const Headers& headers) {
  std::string text = HeaderText(headers, "Recourse-Session");
  return text.empty() ? HeaderText(headers, std::string(kSessionField)) : text;
}

}  // namespace

std::string ScopeText(const Headers& headers, const CallBody& body, const ScopeRule& scope) {
  switch (scope.kind) {
    case ScopeRule::Kind::kSession:
      return SessionText(headers);
    case ScopeRule::Kind::kHeader:
      return HeaderText(headers, scope.name);
    case ScopeRule::Kind::kBody:
      return BodyText(body, scope.name);
    case ScopeRule::Kind::kBaggage:
      return BaggageText(headers, scope.name);
    case ScopeRule::Kind::kTrace:
    case ScopeRule::Kind::kCaller:
    case ScopeRule::Kind::kGlobal:
      break;
  }
  return {};
}

}  // namespace recourse
