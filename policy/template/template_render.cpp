#include <algorithm>

#include "policy/template/may_be_null.h"
#include "policy/template/template.h"
#include "policy/uri/path.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

using Node = RequestTemplate::Node;
using Source = Selector::Source;
using Text = RequestTemplate::Text;

bool HasType(const Json& value, RequestTemplate::Type type) {
  using Type = RequestTemplate::Type;
  switch (type) {
    case Type::kNumber:
      return value.kind == Json::Kind::kNumber;
    case Type::kText:
      return value.kind == Json::Kind::kString;
    case Type::kBool:
      return value.kind == Json::Kind::kTrue || value.kind == Json::Kind::kFalse;
    case Type::kAny:
      break;
  }
  return true;
}

// The value of one placeholder. Missing and null are refused, and so is another type. What was
// kept of a state is put back as it was, also if that is null.
Result<Json> ValueOf(const RequestTemplate::Piece& piece, const CallValues& values) {
  std::optional<Json> value = Select(*piece.selector, values);
  const bool is_before = piece.selector->source == Source::kBeforeBody;
  if (!value && is_before) return Malformed("its state before it was sent is not known");
  if (!value || (value->kind == Json::Kind::kNull && !is_before)) {
    return Malformed("a value is missing");
  }
  if (!HasType(*value, piece.type)) return Malformed("a value has another type than `as` says");
  return std::move(*value);
}

// The same in a value that goes into a body whole, or in a list of them.
bool HoldsWildcard(const Json& value) {
  if (value.kind == Json::Kind::kArray) return std::ranges::any_of(value.items, HoldsWildcard);
  return value.kind == Json::Kind::kString && IsWildcard(value.text);
}

bool IsOfState(const Selector& place) {
  return place.source == Source::kBeforeBody || place.source == Source::kBeforeHeader;
}

constexpr std::string_view kWildcardInBody =
    "a value cannot stand in a body: wildcards are refused";

// A number of a state is put back as the backend wrote it: to some 1.0 is no 1.
std::optional<std::string> AsKept(const RequestTemplate::Piece& piece, const CallValues& values) {
  const bool is_kept = piece.selector->source == Source::kBeforeBody && values.before != nullptr;
  return is_kept ? KeptTextAt(*values.before, piece.selector->name) : std::nullopt;
}

// The value of one placeholder as text for a path, query or field.
Result<std::string> TextOf(const RequestTemplate::Piece& piece, const CallValues& values) {
  const Result<Json> value = ValueOf(piece, values);
  if (!value) return std::unexpected(value.error());
  if (!value->is_scalar()) return Malformed("a value is an array or object where text is needed");
  std::string text = ScalarText(*value);
  if (value->kind == Json::Kind::kNumber) text = AsKept(piece, values).value_or(text);
  if (text.empty()) return Malformed("a value is empty");
  if (text.size() > limits::kExternalRefBytesMax) return Malformed("a value is too long");
  if (!IsFieldValue(text) || text.find('\t') != std::string::npos) {
    return Malformed("a value has control characters");
  }
  return text;
}

template <class Encode>
Result<std::string> Join(const Text& pieces, const CallValues& values, Encode encode) {
  std::string out;
  for (const auto& piece : pieces) {
    if (!piece.selector) {
      out += piece.literal;
      continue;
    }
    const auto text = TextOf(piece, values);
    if (!text) return std::unexpected(text.error());
    const Result<std::string> encoded = encode(*text);
    if (!encoded) return encoded;
    out += *encoded;
  }
  return out;
}

Result<std::string> ForPath(const std::string& text, bool may_have_slash) {
  if (!(may_have_slash ? IsPathOfValues(text) : IsPathValue(text))) {
    return Malformed(
        "a value cannot stand in a path: separators, wildcards and non-ASCII are refused");
  }
  return PercentEncode(text);
}
Result<std::string> ForQuery(const std::string& text) {
  if (IsWildcard(text)) return Malformed("a value cannot stand in a query: wildcards are refused");
  return PercentEncode(text);
}
Result<std::string> ForHeader(const std::string& text) { return text; }

bool IsOnlyDots(std::string_view segment) {
  return !segment.empty() && segment.find_first_not_of('.') == std::string_view::npos;
}

Result<std::string> RenderTarget(const RequestTemplate& request, const CallValues& values) {
  std::string target;
  for (const Text& pieces : request.path) {
    const auto segment = Join(pieces, values, [&request](const std::string& text) {
      return ForPath(text, request.keeps_escaped_slash);
    });
    if (!segment) return segment;
    if (IsOnlyDots(*segment)) return Malformed("a path segment would be a dot segment");
    target += '/' + *segment;
  }
  char separator = '?';
  for (const auto& [name, pieces] : request.query) {
    const auto value = Join(pieces, values, ForQuery);
    if (!value) return value;
    target += separator + name + '=' + *value;
    separator = '&';
  }
  if (target.size() > limits::kTargetBytesMax) return Malformed("the rendered target is too long");
  return target;
}

constexpr std::string_view kTooLarge = "the rendered request is too large";

// What a backend answers with an empty string names nothing that could be taken back.
bool MayBeEmpty(Source source) {
  return source == Source::kBody || source == Source::kQuery || source == Source::kHeader ||
         source == Source::kBeforeBody;
}

// A string that is one placeholder: the value goes in as a node, whole, and keeps its type.
Result<void> AppendPlaceholder(std::string& out, const RequestTemplate::Piece& piece,
                               const CallValues& values) {
  const Result<Json> value = ValueOf(piece, values);
  if (!value) return std::unexpected(value.error());
  if (value->kind == Json::Kind::kString && value->text.empty() &&
      !MayBeEmpty(piece.selector->source)) {
    return Malformed("a value is empty");
  }
  if (!IsOfState(*piece.selector) && HoldsWildcard(*value)) return Malformed(kWildcardInBody);
  if (const auto kept = AsKept(piece, values)) {
    out += *kept;
  } else if (!AppendJson(out, *value)) {
    return Malformed(kTooLarge);
  }
  return {};
}

Result<void> AppendText(std::string& out, const Text& pieces, const CallValues& values) {
  if (pieces.size() == 1 && pieces[0].selector) {
    return AppendPlaceholder(out, pieces[0], values);
  }
  const auto text = Join(pieces, values, ForHeader);
  if (!text) return std::unexpected(text.error());
  AppendJsonString(out, *text);
  return {};
}

// What may be left out of a body at `at` is left out: null before the call, which does not set it.
// One that the call sets cannot be made null again.
enum class Nulls { kNone, kLeftOut, kInTheWay };
Nulls NullsOf(const Text& pieces, const std::string& at, const CallValues& values) {
  if (pieces.size() != 1 || !pieces[0].selector) return Nulls::kNone;
  if (pieces[0].selector->source != Source::kBeforeBody) return Nulls::kNone;
  const std::optional<Json> was = Select(*pieces[0].selector, values);
  if (!was || was->kind != Json::Kind::kNull) return Nulls::kNone;
  const bool is_told = values.body != nullptr && !values.body_is_partial;
  const bool stays = is_told && AtPointer(*values.body, at) == nullptr;
  return stays ? Nulls::kLeftOut : Nulls::kInTheWay;
}
constexpr std::string_view kNothingBefore = "the call may have set what was not there before it";

// `at` is the place of the node in the body. The policy's own nesting is bounded by the loader, so
// recursion is too.
Result<void> AppendNode(std::string& out, const Node& node, const CallValues& values,
                        const std::string& at) {
  if (out.size() > limits::kRenderedRequestBytesMax) return Malformed(kTooLarge);
  switch (node.kind) {
    case Json::Kind::kString:
      return AppendText(out, node.text, values);
    case Json::Kind::kArray: {
      JsonList list(out);
      for (const Node& item : node.items) {
        if (auto done = AppendNode(list.Value(), item, values, at); !done) return done;
      }
      return {};
    }
    case Json::Kind::kObject: {
      JsonObject object(out);
      for (const auto& [name, member] : node.members) {
        const std::string inside = at + '/' + PointerToken(name);
        const bool may_go = !member.text.empty() && member.text[0].selector &&
                            IsUnlessNull(*member.text[0].selector);
        const Nulls nulls = may_go ? NullsOf(member.text, inside, values) : Nulls::kNone;
        if (nulls == Nulls::kInTheWay) return Malformed(kNothingBefore);
        if (nulls == Nulls::kLeftOut) continue;
        auto done = AppendNode(object.ForeignValue(name), member, values, inside);
        if (!done) return done;
      }
      return {};
    }
    default:
      AppendJson(out, node.scalar);
      return {};
  }
}

Result<void> AppendForm(const RequestTemplate& request, const CallValues& values,
                        std::string& out) {
  for (const auto& [name, pieces] : request.form) {
    const Nulls nulls = NullsOf(pieces, '/' + PointerToken(name), values);
    if (nulls == Nulls::kInTheWay) return Malformed(kNothingBefore);
    if (nulls == Nulls::kLeftOut) continue;
    const auto value = Join(pieces, values, ForHeader);
    if (!value) return std::unexpected(value.error());
    const bool is_value = pieces.size() == 1 && pieces[0].selector;
    if (is_value && !IsOfState(*pieces[0].selector) && IsWildcard(*value)) {
      return Malformed(kWildcardInBody);
    }
    if (!out.empty()) out += '&';
    out += PercentEncode(name) + '=' + PercentEncode(*value);
    if (out.size() > limits::kRenderedRequestBytesMax) return Malformed(kTooLarge);
  }
  return {};
}

Result<void> RenderBody(const RequestTemplate& request, const CallValues& values,
                        RenderedRequest& out) {
  if (!request.json && request.form.empty()) return {};
  const bool is_json = request.json.has_value();
  auto done = is_json ? AppendNode(out.body, *request.json, values, {})
                      : AppendForm(request, values, out.body);
  if (done && FindHeader(out.headers, "Content-Type") == nullptr) {
    out.headers.emplace_back("Content-Type",
                             is_json ? "application/json" : "application/x-www-form-urlencoded");
  }
  return done;
}

}  // namespace

bool AppendJson(std::string& out, const Json& value) {
  return AppendPlainJson(out, value, limits::kRenderedRequestBytesMax);
}

Result<RenderedRequest> Render(const RequestTemplate& request, const CallValues& values) {
  RenderedRequest out;
  out.method = request.method;
  auto target = RenderTarget(request, values);
  if (!target) return std::unexpected(target.error());
  out.target = std::move(*target);
  std::size_t size = out.target.size();
  for (const auto& [name, pieces] : request.headers) {
    auto value = Join(pieces, values, ForHeader);
    if (!value) return std::unexpected(value.error());
    size += name.size() + value->size();
    out.headers.emplace_back(name, std::move(*value));
  }
  if (auto done = RenderBody(request, values, out); !done) return std::unexpected(done.error());
  if (size + out.body.size() > limits::kRenderedRequestBytesMax) return Malformed(kTooLarge);
  return out;
}

}  // namespace recourse
