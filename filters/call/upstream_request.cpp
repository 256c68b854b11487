#include "filters/call/upstream_request.h"

#include "filters/call/answers.h"
#include "filters/call/codecs.h"
#include "filters/credentials/credentials.h"
#include "policy/graphql/decision/document_key.h"
#include "proxy/base/http/field_reach.h"

namespace recourse {
namespace {

const SettleRule* SettleOf(const RequestContext& context) {
  return context.tool != nullptr && context.tool->settle ? &*context.tool->settle : nullptr;
}

// Whether what is put into the body reaches the call that it makes, or a directive there: a server
// takes no notice of what its document does not use.
bool IsUsed(const RequestContext& context, const RequestPlace& place) {
  const bool is_inside = place.where == RequestPlace::Where::kBody;
  if (!is_inside || !CodecOf(*context.backend).PlacesAreInBody()) return true;
  constexpr std::string_view kTried = "recourse-tries-this-place";
  HttpRequest tried = context.request;
  (void)PutIn({{{place, std::string(kTried)}}, false}, tried);
  const auto body = ReadCallBody(*context.backend, tried);
  return body && (CanonicalJson(body->json).contains(kTried) || body->selection.contains(kTried));
}

}  // namespace

Headers UpstreamFields(const RequestContext& context, const std::string& key) {
  static constexpr std::size_t kMoreFields = 4;
  Headers fields;
  fields.reserve(context.request.headers.size() + kMoreFields);
  const bool hides = HasSecrets(*context.backend, context.tool) || !context.backend->hidden.empty();
  for (const Header& field : context.request.headers) {
    const bool is_dropped = IsOwnField(field.first) ||
                            ReachOf(field.first) != FieldReach::kBackend ||
                            IsOwnCredential(*context.backend, context.tool, field.first) ||
                            (hides && AsksForCharset(field.first, field.second));
    if (!is_dropped) fields.push_back(field);
  }
  if (IsLoggedOnly(context)) return fields;
  SetHeader(fields, "Accept-Encoding", "identity");
  // Under one key a backend may run one call only, whether or not the policy knows that it reads
  // it.
  if (context.key_is_taken) RemoveHeader(fields, "Idempotency-Key");
  const RequestPlace& at = KeyOf(context).at;
  // A key that the client wrote into the very field the backend reads stays as the client wrote it.
  const bool is_clients = at.IsField("Idempotency-Key") && FindHeader(fields, at.name) != nullptr;
  if (at.is_field() && !is_clients) SetHeader(fields, at.name, key);
  return fields;
}

HttpRequest UpstreamRequest(const RequestContext& context, const CallBody& body,
                            const std::string& key) {
  HttpRequest request{context.request.method, context.request.target, UpstreamFields(context, key),
                      context.request.body};
  (void)PutIn(PlacedTextsOf(context, body, key, key), request);
  return request;
}

const KeyRule& KeyOf(const RequestContext& context) {
  return KeyRuleOf(context.tool == nullptr ? UnlistedTool() : *context.tool, *context.backend);
}

PlacedTexts PlacedTextsOf(const RequestContext& context, const CallBody& body,
                          const std::string& key, const std::string& mark) {
  PlacedTexts placed;
  if (IsLoggedOnly(context)) return placed;
  placed.is_form = body.is_form();
  const RequestPlace& at = KeyOf(context).at;
  if (at.is_inside() && body.placed_key.empty()) {
    placed.texts.emplace_back(PlaceIn(at, context.request.body).value_or(at), key);
  }
  const SettleRule* const settle = SettleOf(context);
  if (settle != nullptr && settle->mark.exists()) placed.texts.emplace_back(settle->mark, mark);
  return placed;
}

std::string_view WhyUnwritten(const RequestContext& context, const CallBody& body) {
  std::optional<Json> raw;
  const CallValues call = ValuesAsSent(context, body, raw);
  for (const auto& [place, text] : PlacedTextsOf(context, body, {}, {}).texts) {
    if (const auto in_document = PlaceIn(place, context.request.body); !in_document) {
      return in_document.error();
    }
    const auto there = TextIn(place, call, context.request.body);
    if (!there || *there) return "the call has something in the place of a mark of the policy";
    if (body.form == BodyForm::kMultipart) return "a key cannot be written into a multipart body";
    if (const auto why = WhyNotWritable(place, call); !why.empty()) return why;
    if (!IsUsed(context, place)) {
      return "the document does not use the variable that the key stands in";
    }
  }
  return {};
}

std::vector<Insertion> PutIn(const PlacedTexts& placed, HttpRequest& request) {
  std::vector<Insertion> put;
  for (const auto& [place, text] : placed.texts) {
    if (place.where == RequestPlace::Where::kQuery) {
      request.target += InsertionInTarget(place, request.target, text).text;
      continue;
    }
    put.push_back(place.is_in_document()
                      ? InsertionInDocument(place, request.body, text)
                      : InsertionInBody(place, request.body, placed.is_form, text));
    request.body.insert(put.back().at, put.back().text);
  }
  return put;
}

void TakeOut(const std::vector<Insertion>& put, std::string& body) {
  for (auto one = put.rbegin(); one != put.rend(); ++one) body.erase(one->at, one->text.size());
}

}  // namespace recourse
