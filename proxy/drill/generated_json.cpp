// JSON made to fit pointers and conditions.
#include <charconv>
#include <string_view>

#include "proxy/drill/script.h"

namespace recourse {
namespace {

constexpr std::size_t kItemsMax = 16;  // of an array that a pointer leads into

std::string Unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '~' && i + 1 < text.size()) {
      out.push_back(text[++i] == '0' ? '~' : '/');
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::optional<std::size_t> IndexOf(std::string_view step) {
  std::size_t index = 0;
  const auto [end, ec] = std::from_chars(step.data(), step.data() + step.size(), index);
  const bool is_number = ec == std::errc() && end == step.data() + step.size();
  return is_number && index < kItemsMax ? std::optional(index) : std::nullopt;
}

// The place of one step below `at`, made if it is missing; nullptr: something else is in the way.
Json* Below(Json& at, const std::string& step) {
  const auto index = IndexOf(step);
  if (at.kind == Json::Kind::kNull) {
    at.kind = index ? Json::Kind::kArray : Json::Kind::kObject;
  }
  if (at.kind == Json::Kind::kArray && index) {
    if (at.items.size() <= *index) at.items.resize(*index + 1);
    return &at.items[*index];
  }
  if (at.kind != Json::Kind::kObject) return nullptr;
  for (auto& member : at.members) {
    if (member.first == step) return &member.second;
  }
  return &at.members.emplace_back(Json::Member{step, Json()}).second;
}

Json Literal(std::string_view text) { return ParseJson(text).value_or(Json()); }

// The whole number `by` away from this one; conditions with fractions are rounded away from it.
Json Shifted(const Json& number, int by) {
  const std::string text = ScalarText(number);
  long long whole = 0;
  std::from_chars(text.data(), text.data() + text.size(), whole);
  return Literal(std::to_string(whole + by));
}

// Another value of the same kind.
Json Other(const Json& value) {
  switch (value.kind) {
    case Json::Kind::kNumber:
      return Shifted(value, 1);
    case Json::Kind::kString: {
      Json other = value;
      other.text += "-other";
      return other;
    }
    case Json::Kind::kTrue:
      return Literal("false");
    default:
      return Literal("true");
  }
}

}  // namespace

bool PutAt(Json& root, const std::string& pointer, Json value, bool replace) {
  Json* at = &root;
  std::string_view rest = pointer;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const auto end = std::min(rest.find('/'), rest.size());
    at = Below(*at, Unescape(rest.substr(0, end)));
    if (at == nullptr) return false;
    rest.remove_prefix(end);
  }
  if (at->kind == Json::Kind::kNull || (replace && at->is_scalar())) *at = std::move(value);
  return true;
}

std::optional<Json> ValueFor(const Condition& condition, bool holds, const Json& instead) {
  using Op = Condition::Op;
  const Json& right = condition.right;
  switch (condition.op) {
    case Op::kExists:
      return holds ? std::optional(instead) : std::nullopt;
    case Op::kEqual:
      return holds ? right : Other(right);
    case Op::kNotEqual:
      return holds ? Other(right) : right;
    case Op::kLess:
      return holds ? Shifted(right, -1) : right;
    case Op::kLessEqual:
      return holds ? right : Shifted(right, 1);
    case Op::kGreater:
      return holds ? Shifted(right, 1) : right;
    case Op::kGreaterEqual:
      return holds ? right : Shifted(right, -1);
  }
  return std::nullopt;
}

}  // namespace recourse
