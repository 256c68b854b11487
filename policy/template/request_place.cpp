#include "policy/template/request_place.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

// Of a GraphQL request, whose variables are a member of its body.
constexpr std::string_view kVariablesPlace = "variables#/";
constexpr std::string_view kDocumentPlace = "document@";
constexpr std::string_view kFormHelp =
    "accepted: uuid, alnum:25, base32hex:64 (with 22 to 64 characters)";
// So few that two keys could be the same by chance, and more than two digests give.
constexpr int kLengthMin = 22, kLengthMax = 64;
constexpr std::string_view kAlnumDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kBase32HexDigits = "0123456789abcdefghijklmnopqrstuv";  // RFC 4648, 7
constexpr std::string_view kFormVersion = "recourse-key-form-1";

std::string_view DigitsOf(KeyForm::Kind kind) {
  return kind == KeyForm::Kind::kAlnum ? kAlnumDigits : kBase32HexDigits;
}

// 64 bytes that follow from the key.
std::string Expanded(const Digest& key) {
  std::string bytes;
  for (const char part : {'0', '1'}) {
    std::string text(kFormVersion);
    text += part;
    text.append(reinterpret_cast<const char*>(key.data()), key.size());
    const Digest digest = Sha256(text);
    bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  }
  return bytes;
}

// RFC 9562: the bits that follow from the key stand for random ones.
std::string UuidOf(const Digest& key) {
  std::string hex = ToHex(key).substr(0, 32);
  hex[12] = '4';
  hex[16] = "89ab"[static_cast<unsigned char>(key[8]) >> 6];
  for (const std::size_t at : {8U, 13U, 18U, 23U}) hex.insert(at, 1, '-');
  return hex;
}

bool IsUuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash ? text[i] != '-'
                : kAlnumDigits.substr(0, 16).find(ToLower(text.substr(i, 1))) ==
                      std::string_view::npos) {
      return false;
    }
  }
  return true;
}

// Of what is no place at all.
std::string_view WhyNoPlace(std::string_view text) {
  if (text.starts_with("header:"))
    return "after header: the name of a field is missing, or is none";
  if (text.starts_with("body#")) return "after body# comes a JSON pointer, which begins with '/'";
  if (text.starts_with("body")) return "a place in the body is written body#/ with its pointer";
  if (text.starts_with("query")) return "a place in the query is written query. with its name";
  return "no place begins like that";
}

// `text` is "idempotent(key)".
Result<RequestPlace> DirectivePlace(std::string_view text) {
  const auto open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')')) {
    return Malformed("a directive is written with its argument, document@idempotent(key)");
  }
  return RequestPlace{RequestPlace::Where::kDirective, std::string(text.substr(0, open)),
                      std::string(text.substr(open + 1, text.size() - open - 2))};
}

// The last step of the pointer is not there, nor need those before it be.
bool IsOnWay(const Json& value) { return value.kind == Json::Kind::kObject; }

// The pair of that name, among those from `begin` on.
void TakePair(std::string_view name, std::size_t begin, std::string& text) {
  while (begin < text.size()) {
    const auto end = std::min(text.find('&', begin), text.size());
    const Pairs pair = ParsePairs(std::string_view(text).substr(begin, end - begin));
    if (pair.size() == 1 && pair.front().first == name) {
      const bool is_last = end == text.size();
      const bool follows = is_last && begin > 0 && text[begin - 1] == '&';
      text.erase(begin - (follows ? 1 : 0), end - begin + 1);
      return;
    }
    begin = end + 1;
  }
}

}  // namespace

bool RequestPlace::IsField(std::string_view field) const {
  return is_field() && EqualsIgnoreCase(name, field);
}

Selector RequestPlace::AsSelector() const {
  switch (where) {
    case Where::kHeader:
      return {Selector::Source::kHeader, name, "header." + name};
    case Where::kQuery:
      return {Selector::Source::kQuery, name, "query." + name};
    case Where::kDirective:
      return {Selector::Source::kBody, "/query",
              std::string(kDocumentPlace) + name + '(' + argument + ')'};
    default:
      return {Selector::Source::kBody, name, "body#" + name};
  }
}

Result<RequestPlace> ParseRequestPlace(std::string_view text) {
  using Where = RequestPlace::Where;
  if (text == "none") return RequestPlace();
  if (text.starts_with("header:") && IsToken(text.substr(7))) {
    return RequestPlace{Where::kHeader, std::string(text.substr(7))};
  }
  if (text.starts_with(kVariablesPlace)) {
    return ParseRequestPlace("body#/variables/" + std::string(text.substr(kVariablesPlace.size())));
  }
  if (text.starts_with(kDocumentPlace)) {
    return DirectivePlace(text.substr(kDocumentPlace.size()));
  }
  const auto selector = ParseSelector(text);
  if (!selector) return Malformed(WhyNoPlace(text));
  switch (selector->source) {
    case Selector::Source::kQuery:
      return RequestPlace{Where::kQuery, selector->name};
    case Selector::Source::kBody:
      // A text has no place of its own in an array, and none beside the whole.
      if (selector->name.size() < 2) return Malformed("the pointer names no member of the body");
      return RequestPlace{Where::kBody, selector->name};
    case Selector::Source::kHeader:
      return Malformed("a field is written with a colon here, header:X-Name");
    case Selector::Source::kPath:
      return Malformed("nothing is ever written into a path");
    case Selector::Source::kKey:
    case Selector::Source::kExternalRef:
      return Malformed("that is a value, and no place in the request");
    default:
      return Malformed("that is no place in the request that is sent");
  }
}

std::string KeyForm::Text() const {
  switch (kind) {
    case Kind::kHex:
      return "hex:64";
    case Kind::kUuid:
      return "uuid";
    case Kind::kAlnum:
      return "alnum:" + std::to_string(length);
    case Kind::kBase32Hex:
      return "base32hex:" + std::to_string(length);
  }
  return {};
}

Result<KeyForm> ParseKeyForm(std::string_view text) {
  using Kind = KeyForm::Kind;
  if (text == "uuid") return KeyForm{Kind::kUuid, 36};
  if (text == "hex:64") return KeyForm();
  const auto colon = std::min(text.find(':'), text.size());
  const std::string_view word = text.substr(0, colon);
  KeyForm form;
  form.kind = word == "alnum" ? Kind::kAlnum : Kind::kBase32Hex;
  const char* const end = text.data() + text.size();
  const char* const digits = text.data() + std::min(colon + 1, text.size());
  const auto [rest, error] = std::from_chars(digits, end, form.length);
  const bool is_number = error == std::errc() && rest == end;
  const bool is_word = word == "alnum" || word == "base32hex";
  if (!is_word || !is_number || form.length < kLengthMin || form.length > kLengthMax) {
    return Malformed(kFormHelp);
  }
  return form;
}

std::string KeyText(const KeyForm& form, const Digest& key) {
  if (form.kind == KeyForm::Kind::kHex) return ToHex(key);
  if (form.kind == KeyForm::Kind::kUuid) return UuidOf(key);
  const std::string_view digits = DigitsOf(form.kind);
  std::string text = Expanded(key).substr(0, static_cast<std::size_t>(form.length));
  for (char& c : text) c = digits[static_cast<unsigned char>(c) % digits.size()];
  return text;
}

bool Fits(const KeyForm& form, std::string_view text) {
  if (form.kind == KeyForm::Kind::kHex) return true;
  if (form.kind == KeyForm::Kind::kUuid) return IsUuid(text);
  if (text.empty() || text.size() > static_cast<std::size_t>(form.length)) return false;
  const bool may_be_upper = form.kind == KeyForm::Kind::kAlnum;
  return std::ranges::all_of(may_be_upper ? ToLower(text) : std::string(text), [&](char c) {
    return DigitsOf(form.kind).find(c) != std::string_view::npos;
  });
}

std::expected<std::optional<std::string>, std::string_view> TextAtPlace(const RequestPlace& place,
                                                                        const CallValues& call) {
  const std::optional<Json> value = Select(place.AsSelector(), call);
  if (!value) return std::nullopt;
  if (value->kind != Json::Kind::kString) {
    return std::unexpected("a key is a text, and what stands in its place is none");
  }
  return value->text;
}

std::string_view WhyNotWritable(const RequestPlace& place, const CallValues& call) {
  if (place.where != RequestPlace::Where::kBody) return {};
  if (call.body == nullptr) return "the call has no JSON body and no form that it could stand in";
  if (call.body_is_form) {
    const bool is_one = place.name.find('/', 1) == std::string::npos;
    return is_one ? std::string_view() : "a form has no objects that it could stand in";
  }
  for (std::size_t end = 0; end != std::string::npos; end = place.name.find('/', end + 1)) {
    const Json* const on_way = AtPointer(*call.body, std::string_view(place.name).substr(0, end));
    if (on_way == nullptr) return {};
    if (!IsOnWay(*on_way)) return "what it would stand in is no JSON object";
  }
  return {};
}

Insertion InsertionInBody(const RequestPlace& place, std::string_view body, bool is_form,
                          std::string_view text) {
  const std::string_view pointer = place.name;
  if (is_form) {
    Insertion added{body.size(), body.empty() ? "" : "&"};
    added.text += PercentEncode(MemberName(pointer.substr(1))) + '=' + PercentEncode(text);
    return added;
  }
  std::size_t parent = 0;  // how much of the pointer leads to the innermost object that is there
  JsonSpan at = FindJsonSpan(body, {}).value_or(JsonSpan());
  for (auto end = pointer.find('/', 1); end != std::string_view::npos;
       end = pointer.find('/', end + 1)) {
    const auto deeper = FindJsonSpan(body, pointer.substr(0, end));
    if (!deeper) break;
    at = *deeper;
    parent = end;
  }
  const std::size_t inside = at.at + 1;
  Insertion added{inside, {}};
  std::string_view rest = pointer.substr(parent);
  std::string ends;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('/', 1), rest.size());
    if (!added.text.empty()) {
      added.text += '{';
      ends += '}';
    }
    AppendJsonString(added.text, MemberName(rest.substr(1, end - 1)));
    added.text += ':';
    rest.remove_prefix(end);
  }
  AppendJsonString(added.text, text);
  added.text += ends;
  const auto next = body.find_first_not_of(" \t\r\n", inside);
  if (next != std::string_view::npos && body[next] != '}') added.text += ',';
  return added;
}

Insertion InsertionInTarget(const RequestPlace& place, std::string_view target,
                            std::string_view text) {
  const auto mark = target.find('?');
  const bool has_pairs = mark != std::string_view::npos && mark + 1 < target.size();
  const std::string added = mark == std::string_view::npos ? "?" : has_pairs ? "&" : "";
  return {target.size(), added + PercentEncode(place.name) + '=' + PercentEncode(text)};
}

void TakeFromBody(const RequestPlace& place, bool is_form, std::string& body) {
  if (is_form) return TakePair(MemberName(std::string_view(place.name).substr(1)), 0, body);
  const auto member = FindJsonMember(body, place.name);
  if (!member) return;
  std::size_t begin = member->at, end = begin + member->size;
  const auto next = body.find_first_not_of(" \t\r\n", end);
  const auto before = body.find_last_not_of(" \t\r\n", begin - 1);
  if (body[next] == ',') {
    end = next + 1;
  } else if (body[before] == ',') {
    begin = before;
  }
  body.erase(begin, end - begin);
}

void TakeFromTarget(const RequestPlace& place, std::string& target) {
  const auto mark = target.find('?');
  if (mark != std::string::npos) TakePair(place.name, mark + 1, target);
}

}  // namespace recourse
