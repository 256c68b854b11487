#include <algorithm>
#include <array>
#include <charconv>
#include <compare>
#include <system_error>

#include "policy/template/template.h"

namespace recourse {
namespace {

using Op = Condition::Op;
using Source = Selector::Source;

constexpr std::array<std::pair<std::string_view, Op>, 6> kOperators{{
    {"==", Op::kEqual},
    {"!=", Op::kNotEqual},
    {"<=", Op::kLessEqual},
    {">=", Op::kGreaterEqual},
    {"<", Op::kLess},
    {">", Op::kGreater},
}};

std::string_view Trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// The normal form of json.h taken apart; the value is 0.<digits> * 10^point.
struct Decimal {
  bool negative = false;
  std::string_view digits;
  long point = 0;
};

Decimal Split(std::string_view normal) {
  Decimal out;
  out.negative = normal.starts_with('-');
  if (out.negative) normal.remove_prefix(1);
  const auto e = normal.find('e');
  out.digits = normal.substr(0, e);
  if (e != std::string_view::npos) {
    const std::string_view exponent = normal.substr(e + 1);
    std::from_chars(exponent.data(), exponent.data() + exponent.size(), out.point);
  }
  out.point += static_cast<long>(out.digits.size());
  if (out.digits == "0") out = Decimal{};
  return out;
}

std::strong_ordering CompareMagnitudes(const Decimal& a, const Decimal& b) {
  if (a.digits.empty() || b.digits.empty()) return a.digits.size() <=> b.digits.size();
  if (a.point != b.point) return a.point <=> b.point;
  // No trailing zeros: comparing as text is comparing the fractions.
  return a.digits.compare(b.digits) <=> 0;
}

std::strong_ordering CompareNumbers(std::string_view left, std::string_view right) {
  const Decimal a = Split(left);
  const Decimal b = Split(right);
  if (a.negative != b.negative) {
    return a.negative ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  return a.negative ? CompareMagnitudes(b, a) : CompareMagnitudes(a, b);
}

bool Holds(Op op, std::strong_ordering order) {
  switch (op) {
    case Op::kExists:
      return true;
    case Op::kEqual:
      return order == 0;
    case Op::kNotEqual:
      return order != 0;
    case Op::kLess:
      return order < 0;
    case Op::kLessEqual:
      return order <= 0;
    case Op::kGreater:
      return order > 0;
    case Op::kGreaterEqual:
      return order >= 0;
  }
  return false;
}

// Most servers read a number as the nearest double: to them 999.99999999999999999 is 1000.
bool AreOneDouble(std::string_view left, std::string_view right) {
  const auto read = [](std::string_view text, double& value) {
    return std::from_chars(text.data(), text.data() + text.size(), value).ec;
  };
  double one = 0, other = 0;
  const std::errc left_error = read(left, one), right_error = read(right, other);
  return left_error == right_error && one == other;
}

// nullopt: it depends on who reads the number of the call.
std::optional<bool> HoldsToAll(Op op, std::string_view left, std::string_view right) {
  const bool holds = Holds(op, CompareNumbers(left, right));
  const bool depends = holds != Holds(op, std::strong_ordering::equal) && AreOneDouble(left, right);
  return depends ? std::nullopt : std::optional(holds);
}

bool IsOfCall(Source source) {
  return source == Source::kPath || source == Source::kQuery || source == Source::kHeader ||
         source == Source::kBody;
}

bool IsTextual(Source source) {
  return source == Source::kPath || source == Source::kQuery || source == Source::kHeader ||
         source == Source::kAnswerHeader;
}

// Servers stop at the 'e' of 5e3, or do not.
std::optional<Json> TypedText(std::string_view text) {
  const bool is_number = text.find_first_of("0123456789") != std::string_view::npos;
  if (is_number && text.find_first_of("eE") != std::string_view::npos) return std::nullopt;
  auto typed = ParseJson(text);
  if (!typed || text.find_first_of(" \t\r\n") != std::string_view::npos) return std::nullopt;
  return std::move(*typed);
}

bool IsBool(const Json& value) {
  return value.kind == Json::Kind::kTrue || value.kind == Json::Kind::kFalse;
}

}  // namespace

Result<Condition> ParseCondition(std::string_view text) {
  Condition condition;
  text = Trim(text);
  condition.text = text;
  const auto space = text.find(' ');
  auto left = ParseSelector(text.substr(0, space));
  if (!left) return std::unexpected(left.error());
  condition.left = std::move(*left);
  if (space == std::string_view::npos) {
    if (condition.left.name.find_first_of("=<>!") != std::string::npos) {
      return Malformed("put spaces around the operator: body#/amount > 1000");
    }
    return condition;
  }
  const std::string_view rest = Trim(text.substr(space));
  const auto end = rest.find(' ');
  const auto* found = std::find_if(kOperators.begin(), kOperators.end(), [&](const auto& entry) {
    return entry.first == rest.substr(0, end);
  });
  if (found == kOperators.end() || end == std::string_view::npos) {
    return Malformed(
        "accepted: a place alone (it exists), or a place, one of == != < <= > >=, a value");
  }
  condition.op = found->second;
  auto right = ParseJson(Trim(rest.substr(end)));
  if (!right || !right->is_scalar()) {
    return Malformed("the value must be a JSON scalar: 1000, \"text\", true, false or null");
  }
  condition.right = std::move(*right);
  const bool ordered = condition.op != Op::kEqual && condition.op != Op::kNotEqual;
  if (ordered && condition.right.kind != Json::Kind::kNumber) {
    return Malformed("< <= > >= compare numbers only");
  }
  return condition;
}

std::optional<bool> Evaluate(const Condition& condition, const CallValues& values) {
  std::optional<Json> left = Select(condition.left, values);
  if (condition.op == Op::kExists) return left.has_value();
  if (!left) return std::nullopt;
  const Json& right = condition.right;
  // Paths, queries, fields and forms are text; "10" is the number 10 where a number is asked for.
  const bool is_text = IsTextual(condition.left.source) ||
                       (condition.left.source == Source::kBody && values.body_is_form);
  if (is_text && left->kind == Json::Kind::kString && right.kind != Json::Kind::kString) {
    left = TypedText(left->text);
    if (!left) return std::nullopt;
  }
  if (right.kind == Json::Kind::kNull) {
    const bool is_null = left->kind == Json::Kind::kNull;
    return is_null == (condition.op == Op::kEqual);
  }
  if (IsBool(right) && IsBool(*left)) return Holds(condition.op, left->kind <=> right.kind);
  if (left->kind != right.kind) return std::nullopt;
  if (right.kind == Json::Kind::kNumber && IsOfCall(condition.left.source)) {
    return HoldsToAll(condition.op, left->text, right.text);
  }
  if (right.kind == Json::Kind::kNumber) {
    return Holds(condition.op, CompareNumbers(left->text, right.text));
  }
  return Holds(condition.op, left->text.compare(right.text) <=> 0);
}

std::string_view WhyNeverEvaluated(const Condition& condition) {
  const bool compares_status =
      condition.left.source == Source::kAnswerStatus && condition.op != Op::kExists;
  if (!compares_status || condition.right.kind == Json::Kind::kNumber) return {};
  return "the status is a number; write it without quotes";
}

bool StatusSet::Contains(int status) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [status](const auto& range) {
    return status >= range.first && status <= range.second;
  });
}

std::string StatusSet::ToString() const {
  std::string out;
  for (const auto& [first, last] : ranges_) {
    if (!out.empty()) out += ", ";
    out += std::to_string(first);
    if (last != first) out += '-' + std::to_string(last);
  }
  return out;
}

Result<StatusSet> ParseStatuses(const std::vector<std::string>& items) {
  static constexpr std::string_view kHelp = "accepted: statuses such as 404, 2xx or 500-504";
  StatusSet set;
  const auto number = [](std::string_view text) {
    int value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool good = ec == std::errc() && end == text.data() + text.size() && text.size() == 3;
    return good && value >= 100 && value <= 599 ? value : 0;
  };
  for (const std::string_view item : items) {
    if (item.size() == 3 && item.ends_with("xx") && item[0] >= '1' && item[0] <= '5') {
      const int first = (item[0] - '0') * 100;
      set.Add(first, first + 99);
      continue;
    }
    const auto dash = item.find('-');
    const int first = number(item.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : number(item.substr(dash + 1));
    if (first == 0 || last < first) return Malformed(kHelp);
    set.Add(first, last);
  }
  return set;
}

}  // namespace recourse
