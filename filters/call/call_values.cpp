#include "filters/call/call_values.h"

#include <algorithm>
#include <map>

#include "filters/call/client_key.h"
#include "filters/call/codecs.h"
#include "filters/call/multipart.h"
#include "policy/graphql/decision/document_key.h"
#include "policy/model/approval_need.h"
#include "policy/model/method_override.h"
#include "proxy/base/hex.h"
#include "proxy/base/http/content_coding.h"

namespace recourse {
namespace {

struct ContentType {
  std::string media;   // lower case
  Headers parameters;  // names in lower case, values unquoted
  bool valid = true;
};

// Takes one parameter value, a token or a quoted string, off the front of `rest`.
bool TakeValue(std::string_view& rest, std::string& value) {
  if (!rest.starts_with('"')) {
    const auto end = std::min(rest.find(';'), rest.size());
    value = TrimBlanks(rest.substr(0, end));
    rest.remove_prefix(end);
    return IsToken(value);
  }
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest = TrimBlanks(rest.substr(i + 1));
      return rest.empty() || rest.front() == ';';
    }
    if (rest[i] == '\\' && ++i == rest.size()) return false;
    value.push_back(rest[i]);
  }
  return false;
}

ContentType ParseContentType(std::string_view text) {
  ContentType type;
  const auto semicolon = std::min(text.find(';'), text.size());
  type.media = ToLower(TrimBlanks(text.substr(0, semicolon)));
  std::string_view rest = text.substr(semicolon);
  while (!rest.empty()) {
    rest = TrimBlanks(rest.substr(1));
    if (rest.empty()) break;
    const auto equals = rest.find('=');
    std::string value;
    const std::string name = ToLower(TrimBlanks(rest.substr(0, std::min(equals, rest.size()))));
    rest =
        equals == std::string_view::npos ? std::string_view() : TrimBlanks(rest.substr(equals + 1));
    if (!IsToken(name) || !TakeValue(rest, value) || FindHeader(type.parameters, name)) {
      type.valid = false;
      break;
    }
    type.parameters.emplace_back(name, std::move(value));
  }
  return type;
}

constexpr std::string_view kForm = "application/x-www-form-urlencoded";
constexpr std::string_view kMultipart = "multipart/form-data";

bool IsJsonType(std::string_view media) {
  return media == "application/json" || media == "text/json" || media.ends_with("+json");
}

// PHP reads a type up to a blank; to Tornado and ASP.NET whatever begins like a form is one.
bool HasOtherReadings(std::string_view media) {
  const auto slash = std::min(media.find('/'), media.size());
  const bool is_type =
      slash < media.size() && IsToken(media.substr(0, slash)) && IsToken(media.substr(slash + 1));
  const bool is_form = media == kForm || media == kMultipart;
  return !is_type || (!is_form && (media.starts_with(kForm) || media.starts_with(kMultipart)));
}

Result<CallBody> ReadJson(const HttpRequest& request, const std::string& content_type,
                          const ContentType& type) {
  const std::string* charset = FindHeader(type.parameters, "charset");
  if (!type.valid) {
    return std::unexpected(
        Error(ErrorCode::kUnsupportedMediaType, "the Content-Type field cannot be read"));
  }
  const bool is_utf8 = charset == nullptr || EqualsIgnoreCase(*charset, "utf-8") ||
                       EqualsIgnoreCase(*charset, "utf8");
  // To some `charset*=` says it too (aiohttp), or what only looks like a parameter.
  if (!is_utf8 || !IsUtf8Form(content_type)) {
    return std::unexpected(Error(ErrorCode::kUnsupportedMediaType,
                                 "JSON arguments must be in UTF-8; send charset=utf-8 or none"));
  }
  auto parsed = ParseJson(request.body);
  if (!parsed) return std::unexpected(parsed.error());
  CallBody body;
  body.form = BodyForm::kJson;
  body.json = std::move(*parsed);
  return body;
}

Result<CallBody> ReadForm(const HttpRequest& request) {
  if (CountPairs(request.body) > limits::kFormPairsMax) {
    return std::unexpected(
        Error(ErrorCode::kRequestTooLarge, "the form of a write may have at most 10,000 pairs"));
  }
  if (HasMalformedEscape(request.body)) return RawCallBody(request);
  CallBody body;
  body.form = BodyForm::kForm;
  body.pairs = ParsePairs(request.body);
  std::map<std::string_view, int> count;
  for (const auto& [name, value] : body.pairs) ++count[name];
  body.json.kind = Json::Kind::kObject;
  for (const auto& [name, value] : body.pairs) {
    if (count[name] != 1) continue;  // two readings
    Json text;
    text.kind = Json::Kind::kString;
    text.text = value;
    body.json.members.emplace_back(name, std::move(text));
  }
  return body;
}

// Of the parts that are text and whose names no other part has.
Json ValuesOfParts(const std::vector<BodyPart>& parts) {
  std::map<std::string_view, int> count;
  for (const BodyPart& part : parts) {
    for (const std::string& name : part.names) ++count[name];
  }
  Json values;
  values.kind = Json::Kind::kObject;
  for (const BodyPart& part : parts) {
    if (!part.is_text || count[part.names.front()] != 1) continue;
    Json text;
    text.kind = Json::Kind::kString;
    text.text = part.content;
    values.members.emplace_back(part.names.front(), std::move(text));
  }
  return values;
}

// PHP takes what stands behind the first "boundary", as in xboundary=; others take boundary*=.
bool TellsOneBoundary(const ContentType& type) {
  bool is_told = false;
  for (const auto& [name, value] : type.parameters) {
    if (name == "boundary") {
      is_told = true;
    } else if (name.contains("boundary") || (!is_told && ToLower(value).contains("boundary"))) {
      return false;
    }
  }
  return is_told;
}

CallBody ReadMultipart(const HttpRequest& request, const ContentType& type) {
  const std::string* boundary = FindHeader(type.parameters, "boundary");
  if (!type.valid || !TellsOneBoundary(type)) return RawCallBody(request);
  auto parts = ParseMultipart(request.body, *boundary);
  if (!parts) return RawCallBody(request);
  CallBody body;
  body.form = BodyForm::kMultipart;
  body.parts = std::move(*parts);
  body.json = ValuesOfParts(body.parts);
  return body;
}

std::size_t HeapBytes(const std::string& text) {
  return text.capacity() > std::string().capacity() ? text.capacity() : 0;
}

// As deep as a text may be nested.
std::size_t HeapBytes(const Json& json) {
  std::size_t bytes = HeapBytes(json.text) + json.items.capacity() * sizeof(Json) +
                      json.members.capacity() * sizeof(Json::Member);
  for (const Json& item : json.items) bytes += HeapBytes(item);
  for (const Json::Member& member : json.members) {
    bytes += HeapBytes(member.first) + HeapBytes(member.second);
  }
  return bytes;
}

std::size_t HeapBytes(const Pairs& pairs) {
  std::size_t bytes = pairs.capacity() * sizeof(Pairs::value_type);
  for (const auto& [name, value] : pairs) bytes += HeapBytes(name) + HeapBytes(value);
  return bytes;
}

}  // namespace

// Held to what any key of an agent is held to.
Result<std::string> ReadPlacedKey(const Tool* tool, const RequestContext& context,
                                  const CallBody& body) {
  const bool has_rule = tool != nullptr && tool->key;
  if (!has_rule || !tool->key->at.is_inside()) return std::string();
  std::optional<Json> raw;
  const auto text = TextIn(tool->key->at, ValuesAsSent(context, body, raw), context.request.body);
  if (!text) return std::unexpected(Error(ErrorCode::kInvalidKey, text.error()));
  if (!*text) return std::string();
  if ((*text)->empty()) {
    return std::unexpected(Error(ErrorCode::kInvalidKey, "the key is empty"));
  }
  return ParseClientKey(QuotedKey(**text));
}

std::size_t SizeOf(const CallBody& body) {
  std::size_t bytes = sizeof body + HeapBytes(body.json) + HeapBytes(body.pairs) +
                      body.parts.capacity() * sizeof(BodyPart);
  for (const BodyPart& part : body.parts) {
    bytes += HeapBytes(part.headers) + HeapBytes(part.content);
    for (const std::string& name : part.names) bytes += sizeof name + HeapBytes(name);
  }
  return bytes;
}

bool IsEndpointMessage(const Backend& backend, const HttpRequest& request) {
  return backend.has_endpoint() && request.method == "POST" &&
         std::string_view(request.target).substr(0, request.target.find('?')) == backend.endpoint;
}

Result<CallBody> ReadCallBody(const Backend& backend, const HttpRequest& request) {
  if (!IsEndpointMessage(backend, request)) return ReadCallBody(request);
  return CodecOf(backend).Read(backend, request);
}

Result<std::shared_ptr<const CallBody>> ReadingOf(const RequestContext& context) {
  if (context.reading) return context.reading;
  auto body = ReadCallBody(*context.backend, context.request);
  if (!body) return std::unexpected(body.error());
  if (auto placed = ReadPlacedKey(context.tool, context, *body); !placed) {
    return std::unexpected(placed.error());
  } else {
    body->placed_key = std::move(*placed);
  }
  if (context.tool != nullptr && context.tool->key) {
    LeaveOutKey(context.tool->key->at, body->placed_key, body->selection);
  }
  return std::make_shared<const CallBody>(std::move(*body));
}

CallValues ValuesAsSent(const RequestContext& context, const CallBody& body,
                        std::optional<Json>& raw) {
  CallValues values = ValuesOfCall(context, body);
  if (!CodecOf(*context.backend).PlacesAreInBody()) return values;
  if (auto json = ParseJson(context.request.body)) raw = std::move(*json);
  values.body = raw ? &*raw : nullptr;
  return values;
}

bool IsEncoded(const Headers& headers) {
  const std::string* encoding = FindHeader(headers, "Content-Encoding");
  return encoding != nullptr && !encoding->empty() && !EqualsIgnoreCase(*encoding, "identity");
}

bool HasMalformedEscape(std::string_view text) {
  for (auto at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 3)) {
    if (text.size() - at < 3 || HexValue(text[at + 1]) < 0 || HexValue(text[at + 2]) < 0) {
      return true;
    }
  }
  return false;
}

CallBody RawCallBody(const HttpRequest& request) {
  CallBody body;
  if (request.body.empty()) return body;
  body.form = BodyForm::kRaw;
  const std::string* type = FindHeader(request.headers, "Content-Type");
  const std::string* encoding = FindHeader(request.headers, "Content-Encoding");
  if (type != nullptr) body.raw_type = *type;
  if (encoding != nullptr) body.raw_type.append("\n").append(*encoding);
  return body;
}

Result<CallBody> ReadCallBody(const HttpRequest& request) {
  if (request.body.empty()) return CallBody();
  const std::string* field = FindHeader(request.headers, "Content-Type");
  if (field == nullptr || IsEncoded(request.headers)) return RawCallBody(request);
  const ContentType type = ParseContentType(*field);
  if (HasOtherReadings(type.media)) return RawCallBody(request);
  if (IsJsonType(type.media)) return ReadJson(request, *field, type);
  if (type.media.ends_with("+yaml")) {
    // JSON is YAML, and the patches that Kubernetes applies (apply-patch+yaml) are mostly JSON.
    auto body = ReadJson(request, *field, type);
    return body ? std::move(body) : Result<CallBody>(RawCallBody(request));
  }
  if (type.media == kForm) return ReadForm(request);
  if (type.media == kMultipart) return ReadMultipart(request, type);
  return RawCallBody(request);
}

CallValues ValuesOfCall(const RequestContext& context, const CallBody& body) {
  CallValues values;
  values.path = &context.captures;
  values.query = &context.query;
  values.headers = &context.request.headers;
  values.body = body.values();
  values.body_is_form = body.is_form();
  values.body_is_partial = body.is_partial();
  return values;
}

const Tool& UnlistedTool() {
  static const Tool tool;
  return tool;
}

std::optional<Json> ReadAnswerBody(const Answer& answer) {
  if (!answer.body_complete || answer.over_cap) return std::nullopt;
  if (answer.message) return answer.codec->Output(answer.response.body);
  return ReadJsonAnswer(answer.response);
}

std::optional<Json> ReadJsonAnswer(const HttpResponse& response) {
  const auto fields = std::count_if(
      response.headers.begin(), response.headers.end(),
      [](const Header& field) { return EqualsIgnoreCase(field.first, "Content-Encoding"); });
  if (fields > 1) return std::nullopt;  // encoded more than once
  Result<std::string> decoded;
  if (IsEncoded(response.headers)) {
    decoded = DecodeContent(*FindHeader(response.headers, "Content-Encoding"), response.body);
    if (!decoded) return std::nullopt;
  }
  auto parsed = ParseJson(IsEncoded(response.headers) ? *decoded : response.body);
  if (!parsed) return std::nullopt;
  return std::move(*parsed);
}

std::string ExternalRefText(const std::optional<Json>& value) {
  if (!value || !value->is_scalar()) return {};
  std::string text = ScalarText(*value);
  if (text.size() > limits::kExternalRefBytesMax || !IsFieldValue(text)) return {};
  return text;
}

bool NeedsApproval(const ApprovalRule& rule, const CallValues& values) {
  return WhyApproval(rule, values).has_value();
}

}  // namespace recourse
