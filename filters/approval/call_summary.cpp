#include "filters/approval/call_summary.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "filters/approval/approved_call.h"
#include "filters/call/call_values.h"

namespace recourse {
namespace {

constexpr std::size_t kValueBytesMax = 60;
constexpr std::size_t kSummaryBytesMax = 240;
constexpr std::size_t kFirstValues = 3;
// A list reads many bodies; nobody asked for values of such a large one.
constexpr std::size_t kUnaskedBodyBytesMax = 65'536;

std::string Clipped(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  text.resize(end);
  return text + "\xe2\x80\xa6";  // an ellipsis
}

std::string ShownValue(const Json& value) {
  std::string text;
  if (value.is_scalar()) {
    text = value.kind == Json::Kind::kNull ? "null" : ScalarText(value);
  } else if (!AppendJson(text, value)) {
    text = "(too long)";
  }
  return Clipped(std::move(text), kValueBytesMax);
}

bool IsSecretName(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kWords{
      "pass", "secret", "token", "api_key", "apikey", "authorization", "credential", "cvc", "cvv"};
  const std::string lower = ToLower(std::string(name));
  return std::any_of(kWords.begin(), kWords.end(), [&lower](std::string_view word) {
    return lower.find(word) != std::string::npos;
  });
}

// Those of objects within objects too, as they stand; lists say little in a line.
void AppendFirstValues(const Json& object, std::size_t& left, std::string& out) {
  for (const auto& [name, value] : object.members) {
    if (left == 0) return;
    if (IsSecretName(name)) continue;
    if (value.kind == Json::Kind::kObject) {
      AppendFirstValues(value, left, out);
    } else if (value.is_scalar() && value.kind != Json::Kind::kNull) {
      out += (out.empty() ? "" : ", ") + Clipped(name, kValueBytesMax) + ": " + ShownValue(value);
      --left;
    }
  }
}

std::string Filled(const RequestTemplate::Text& summary, const CallValues& values) {
  std::string out;
  for (const RequestTemplate::Piece& piece : summary) {
    if (!piece.selector) {
      out += piece.literal;
      continue;
    }
    const auto value = Select(*piece.selector, values);
    out += value ? ShownValue(*value) : "(missing)";
  }
  return out;
}

}  // namespace

std::string SummaryOf(const Event& claim, std::shared_ptr<const Policy> policy) {
  const auto call = ApprovedCall(claim, std::move(policy));
  if (!call) return {};
  const Tool& tool = *(*call)->tool;
  const bool is_asked_for = tool.approval && !tool.approval->summary.empty();
  if (!is_asked_for && claim.request->body.size() > kUnaskedBodyBytesMax) return {};
  const auto body = ReadingOf(**call);
  if (!body) return {};
  const CallValues values = ValuesOfCall(**call, **body);
  std::string out;
  if (is_asked_for) {
    out = Filled(tool.approval->summary, values);
  } else if (values.body != nullptr) {
    std::size_t left = kFirstValues;
    AppendFirstValues(*values.body, left, out);
  }
  return Clipped(std::move(out), kSummaryBytesMax);
}

}  // namespace recourse
