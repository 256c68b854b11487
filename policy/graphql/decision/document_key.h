// The key that a GraphQL server takes in a directive of the mutation's field. Pure.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "policy/template/request_place.h"

namespace recourse {

// TextAtPlace, of places in the document of `body` too.
std::expected<std::optional<std::string>, std::string_view> TextIn(const RequestPlace& place,
                                                                   const CallValues& call,
                                                                   std::string_view body);

// Where a key goes in that request: of a document that leaves it to a variable there, else the
// place itself. Fails with a static reason where the document has no room for one.
std::expected<RequestPlace, std::string_view> PlaceIn(const RequestPlace& place,
                                                      std::string_view body);

// What writes `text` into the document, which has none there and has room for it.
Insertion InsertionInDocument(const RequestPlace& place, std::string_view body,
                              std::string_view text);
// Takes the directive out of the document.
void TakeFromDocument(const RequestPlace& place, std::string& body);

// The selection of a mutation without the key that its agent wrote: another key is no other
// selection.
void LeaveOutKey(const RequestPlace& place, std::string_view key, std::string& selection);

}  // namespace recourse
