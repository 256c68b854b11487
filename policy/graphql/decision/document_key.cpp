#include "policy/graphql/decision/document_key.h"

#include "policy/graphql/key_argument.h"
#include "proxy/base/json/json.h"
#include "proxy/base/json/json_span.h"

namespace recourse {

std::expected<std::optional<std::string>, std::string_view> TextIn(const RequestPlace& place,
                                                                   const CallValues& call,
                                                                   std::string_view body) {
  if (!place.is_in_document()) return TextAtPlace(place, call);
  auto found = FindGraphqlKey(body, place.name, place.argument);
  if (!found) return std::unexpected(found.error());
  return std::move(found->text);
}

std::expected<RequestPlace, std::string_view> PlaceIn(const RequestPlace& place,
                                                      std::string_view body) {
  if (!place.is_in_document()) return place;
  const auto found = FindGraphqlKey(body, place.name, place.argument);
  if (!found) return std::unexpected(found.error());
  if (found->variable.empty()) return place;
  return RequestPlace{RequestPlace::Where::kBody, "/variables/" + PointerToken(found->variable)};
}

Insertion InsertionInDocument(const RequestPlace& place, std::string_view body,
                              std::string_view text) {
  const auto found = FindGraphqlKey(body, place.name, place.argument);
  if (!found || found->text) return {};
  return {found->span.at, GraphqlKeyText(*found, text)};
}

void TakeFromDocument(const RequestPlace& place, std::string& body) {
  const auto found = FindGraphqlKey(body, place.name, place.argument);
  if (found && found->text) body.erase(found->span.at, found->span.size);
}

void LeaveOutKey(const RequestPlace& place, std::string_view key, std::string& selection) {
  if (!place.is_in_document() || key.empty()) return;
  Json text;
  text.kind = Json::Kind::kString;
  text.text = key;
  Json arguments;
  arguments.kind = Json::Kind::kObject;
  arguments.members.emplace_back(place.argument, std::move(text));
  const std::string written = '@' + place.name + '(' + CanonicalJson(arguments) + ')';
  if (const auto at = selection.find(written); at != std::string::npos) {
    selection.erase(at, written.size());
  }
}

}  // namespace recourse
