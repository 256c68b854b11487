#include "proxy/admin/api/order_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "proxy/admin/api/query_params.h"
#include "proxy/base/json/json.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Its error is a line for people.
std::expected<std::string, std::string> OneLine(const Json& value, std::string_view name) {
  if (value.kind != Json::Kind::kString) {
    return std::unexpected(fmt::format("'{}' must be a string", name));
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(value.text.begin(), value.text.end(), is_control)) {
    return std::unexpected(fmt::format("'{}' must be one line", name));
  }
  const auto first = value.text.find_first_not_of(' ');
  if (first == std::string::npos) return std::string();
  return value.text.substr(first, value.text.find_last_not_of(' ') - first + 1);
}

// A number, or a text where it has a point: as a number it would be another one.
bool IsStep(const Json& value, std::uint64_t& step) {
  const std::string text = ScalarText(value);
  const bool is_exact = value.kind == Json::Kind::kString || !text.contains('.');
  return is_exact && ParseId(text, step) && step != 0;
}

std::string* MemberOf(std::string_view name, OrderWord& word, std::string& by) {
  if (name == "reason") return &word.reason;
  if (name == "by") return &by;
  if (name == "as") return &word.as;
  return name == "external_ref" ? &word.external_ref : nullptr;
}

}  // namespace

std::expected<OrderWord, std::string> ReadOrderWord(const std::string& body, const Operator& who) {
  OrderWord word;
  word.by = who.name;
  if (body.empty()) return word;
  const auto json = ParseJson(body);
  if (!json || json->kind != Json::Kind::kObject) {
    return std::unexpected("the body must be a JSON object such as {\"reason\": \"...\"}");
  }
  for (const auto& [name, value] : json->members) {
    if (name == "step") {
      if (!IsStep(value, word.step)) {
        return std::unexpected("'step' must be the number of a step, as /flows/{id} shows it");
      }
      continue;
    }
    std::string said;
    std::string* const into = MemberOf(name, word, said);
    if (into == nullptr) {
      return std::unexpected(
          fmt::format("'{}' is not one of reason, by, step, as, external_ref", name));
    }
    if (name == "by" && !who.is_shared()) {
      return std::unexpected(fmt::format(
          "'by' (--as-user) is only for the shared token of --admin-token-file; this order is {}'s",
          who.name));
    }
    auto line = OneLine(value, name);
    if (!line) return std::unexpected(line.error());
    *into = std::move(*line);
    if (!said.empty()) word.by = who.name + " (" + said + ")";
  }
  if (word.reason.size() + word.by.size() + 2 > limits::kFlowReasonBytesMax) {
    return std::unexpected(
        fmt::format("reason and by have more than {} bytes", limits::kFlowReasonBytesMax - 2));
  }
  if (word.external_ref.size() > limits::kExternalRefBytesMax) {
    return std::unexpected(
        fmt::format("external_ref has more than {} bytes", limits::kExternalRefBytesMax));
  }
  return word;
}

std::string ReasonOf(const OrderWord& word) { return word.by + ": " + word.reason; }

}  // namespace recourse
