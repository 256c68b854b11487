#include "filters/mcp/request_state.h"

#include <charconv>

#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

constexpr std::string_view kPrefix = "recourse1.";

// The next part of a text that is separated by full stops.
std::string_view TakePart(std::string_view& text) {
  const std::size_t end = text.find('.');
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return part;
}

template <class T>
bool ReadNumber(std::string_view text, T& out) {
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && after == end;
}

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Takes the member whose value stands there out of its object.
void RemoveMember(std::string& text, JsonSpan value) {
  std::size_t begin = text.rfind('"', text.rfind('"', value.at - 1) - 1);
  std::size_t end = value.at + value.size;
  while (end < text.size() && IsBlank(text[end])) ++end;
  if (end < text.size() && text[end] == ',') {
    ++end;
  } else {
    while (begin > 0 && IsBlank(text[begin - 1])) --begin;
    if (begin > 0 && text[begin - 1] == ',') --begin;
  }
  text.erase(begin, end - begin);
}

}  // namespace

StateScope ScopeOfState(std::string tool, const Json& arguments, std::string_view caller,
                        std::string_view backend) {
  return {std::string(caller), std::string(backend), std::move(tool),
          Sha256(CanonicalJson(arguments))};
}

std::string WriteRequestState(const std::string& secret, const StateScope& scope,
                              const RequestState& state) {
  std::string text = std::string(kPrefix) + std::to_string(state.round) + "." +
                     std::to_string(state.expires_ms) + "." + state.trace_id + ".";
  std::string parts;
  AppendPart(parts, text);
  AppendPart(parts, scope.caller);
  AppendPart(parts, scope.backend);
  AppendPart(parts, scope.tool);
  AppendPart(parts, AsView(scope.arguments));
  return text + ToHex(HmacSha256(secret, parts));
}

bool IsOwnRequestState(std::string_view text) { return text.starts_with(kPrefix); }

std::optional<RequestState> ReadRequestState(const std::string& secret, const StateScope& scope,
                                             std::string_view text, WallTime now) {
  if (!IsOwnRequestState(text)) return std::nullopt;
  std::string_view rest = text.substr(kPrefix.size());
  RequestState state;
  if (!ReadNumber(TakePart(rest), state.round)) return std::nullopt;
  if (!ReadNumber(TakePart(rest), state.expires_ms)) return std::nullopt;
  state.trace_id = TakePart(rest);
  if (!ConstantTimeEqual(text, WriteRequestState(secret, scope, state))) return std::nullopt;
  if (ToUnixMillis(now) >= state.expires_ms) return std::nullopt;
  return state;
}

std::string WithoutRequestState(std::string body, std::string_view traceparent) {
  if (const auto at = FindJsonSpan(body, "/params/_meta/traceparent")) {
    std::string value;
    AppendJsonString(value, traceparent);
    body.replace(at->at, at->size, value);
  }
  if (const auto at = FindJsonSpan(body, "/params/requestState")) RemoveMember(body, *at);
  return body;
}

}  // namespace recourse
