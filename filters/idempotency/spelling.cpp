#include "filters/idempotency/spelling.h"

#include <algorithm>
#include <string>

#include "filters/call/client_key.h"
#include "filters/call/upstream_request.h"
#include "filters/key/key.h"
#include "policy/graphql/decision/document_key.h"

namespace recourse {
namespace {

// A key that was written into the body or the query moves to where the others are.
void TakeOutPlacedKey(const CallBody& body, RequestContext& context) {
  const RequestPlace& written = KeyOf(context).at;
  const RequestPlace place = PlaceIn(written, context.request.body).value_or(written);
  if (place.is_in_document()) {
    TakeFromDocument(place, context.request.body);
  } else if (place.where == RequestPlace::Where::kBody) {
    TakeFromBody(place, body.is_form(), context.request.body);
  } else {
    TakeFromTarget(place, context.request.target);
    std::erase_if(context.query, [&](const auto& pair) { return pair.first == place.name; });
  }
  SetHeader(context.request.headers, kKeyField, QuotedKey(body.placed_key));
  context.reading.reset();
}

}  // namespace

void SpellAsBefore(const Event& known, std::shared_ptr<const CallBody> body, bool is_named,
                   RequestContext& context) {
  const std::string field = *KeyFieldOf(known);
  const auto named = ReadNamedIntent(context.request.headers, *body);
  if (!body->placed_key.empty()) TakeOutPlacedKey(*body, context);
  // A repeat that names nothing may be one of a call that was named by the key it was told.
  const std::string intent = named ? named->intent.value_or(std::string()) : std::string();
  const auto digest = DigestFromHex(intent);
  const bool names_it = is_named || (digest && (*digest == known.key || *digest == known.base_key));
  if (field.empty() && !names_it) {
    RemoveHeader(context.request.headers, kKeyField);
  } else if (!field.empty() || !intent.empty()) {
    SpellKey(field, intent, context.request.headers);
  }
  if (field.empty() || body->message_intent.empty()) return;
  // The field names the intent now, and the message may have named the operation's key.
  auto reading = std::make_shared<CallBody>(*body);
  reading->message_intent.clear();
  context.reading = std::move(reading);
}

}  // namespace recourse
