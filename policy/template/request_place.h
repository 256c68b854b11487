// A place of a request into which Recourse writes a text of its own: the key of a write, or a mark
// by which a probe finds what it made. Pure.
#pragma once

#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "policy/template/template.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

struct RequestPlace {
  enum class Where : std::uint8_t { kNowhere, kHeader, kBody, kQuery, kDirective };
  Where where = Where::kNowhere;
  // Field, JSON pointer (of a form: to one of its fields), name in the query, or in a GraphQL
  // document the directive of its field.
  std::string name;
  std::string argument{};  // kDirective: which of its arguments

  bool exists() const { return where != Where::kNowhere; }
  bool is_field() const { return where == Where::kHeader; }
  // In the body or the query: only a request whose form is known can be written there.
  bool is_inside() const { return exists() && !is_field(); }
  bool is_in_document() const { return where == Where::kDirective; }
  bool IsField(std::string_view field) const;
  // The same place as selectors name it; only of one that exists. Of a directive the document.
  Selector AsSelector() const;
  bool operator==(const RequestPlace&) const = default;
};
// "header:X-Key", "body#/id", "query.requestId", "document@idempotent(key)", "none". Fails with a
// static reason, which does not say what is accepted: not every word accepts all of them.
Result<RequestPlace> ParseRequestPlace(std::string_view text);

// What a backend takes for a key: hex:64, uuid, alnum:N, base32hex:N.
struct KeyForm {
  enum class Kind : std::uint8_t { kHex, kUuid, kAlnum, kBase32Hex };
  Kind kind = Kind::kHex;
  int length = 64;

  bool is_plain() const { return kind == Kind::kHex; }
  std::string Text() const;  // as written in the policy
};
// Fails with a static reason.
Result<KeyForm> ParseKeyForm(std::string_view text);
// The key as a text of that form, the same for ever.
std::string KeyText(const KeyForm& form, const Digest& key);
// Whether a text of somebody else's has that form. Every one has kHex: it asks for nothing.
bool Fits(const KeyForm& form, std::string_view text);

// What stands at a place of the call; nullopt: nothing. Fails where it is no text, which only a
// text can take the place of.
std::expected<std::optional<std::string>, std::string_view> TextAtPlace(const RequestPlace& place,
                                                                        const CallValues& call);

// Empty, or why no text can be written there: there is no body, or something on the way is no
// object.
std::string_view WhyNotWritable(const RequestPlace& place, const CallValues& call);

// A text that is put between two bytes of another.
struct Insertion {
  std::size_t at = 0;
  std::string text;
};
// What puts `text` at the place in a body that has none there and is writable. All other bytes stay
// as they are; objects on the way are made.
Insertion InsertionInBody(const RequestPlace& place, std::string_view body, bool is_form,
                          std::string_view text);
// The same for a target, whose query it becomes the last pair of.
Insertion InsertionInTarget(const RequestPlace& place, std::string_view target,
                            std::string_view text);

// Takes out what stands at the place of a body, or of a target, which has it once.
void TakeFromBody(const RequestPlace& place, bool is_form, std::string& body);
void TakeFromTarget(const RequestPlace& place, std::string& target);

}  // namespace recourse
