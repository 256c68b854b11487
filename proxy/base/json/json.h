// JSON as the key needs it: a strict reading that keeps numbers exact and refuses what two parsers
// read differently.
//
// simdjson's DOM checks structure, strings and UTF-8; numbers are taken from the raw text, because
// simdjson 3.0.1 rounds or refuses large ones (simdjson issues 2093, 2099).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/error.h"

namespace recourse {

// An immutable JSON value that owns its text.
class Json {
 public:
  enum class Kind : std::uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };
  struct Member;

  Kind kind = Kind::kNull;
  // kString: the decoded value. kNumber: the exact decimal normal form: optional '-', digits
  // without leading or trailing zeros, 'e', exponent: 1.0, 1 and 1e0 are all "1e0", 120 is "12e1",
  // every zero is "0e0".
  std::string text;
  std::vector<Json> items;      // kArray
  std::vector<Member> members;  // kObject, in document order

  bool is_scalar() const { return kind != Kind::kArray && kind != Kind::kObject; }
  // The member, or nullptr.
  const Json* Find(std::string_view name) const;
};

// Not a std::pair, which would have to be complete inside Json.
struct Json::Member {
  std::string first;  // the name
  Json second;
};

// Fails with kMalformedRequest and a static reason on anything but one complete JSON text within
// limits.h: byte order mark, invalid UTF-8, lone surrogates, duplicate member names (after
// unescaping) at any depth, numbers over 64 significant digits or from 1e400 on (or as close to
// zero), depth over 64. Values are counted, names are not.
Result<Json> ParseJson(std::string_view text);

// False for nullptr.
inline bool IsArray(const Json* value) {
  return value != nullptr && value->kind == Json::Kind::kArray;
}
inline bool IsObject(const Json* value) {
  return value != nullptr && value->kind == Json::Kind::kObject;
}

// RFC 6901. `pointer` is "" (the whole value) or starts with '/'. nullptr when nothing is there.
const Json* AtPointer(const Json& root, std::string_view pointer);
bool IsJsonPointer(std::string_view pointer);

// The text of a member that is a string, or of what is at the pointer; empty: there is none.
std::string_view TextOf(const Json& object, std::string_view member);
std::string_view TextAt(const Json& root, std::string_view pointer);

// Canonical text: members sorted by UTF-16 code units and strings escaped as in RFC 8785, numbers
// in the exact normal form above (RFC 8785 goes through doubles and would merge 2^53 and 2^53+1).
// Values at the `ignore` pointers are left out.
std::string CanonicalJson(const Json& value, const std::vector<std::string>& ignore = {});

// The value as plain text: a string as itself, a number as written in JSON without exponent where
// that is at most 64 characters ("12e1" is 120), true, false. Empty for null, arrays and objects.
std::string ScalarText(const Json& value);
// Of a member; empty when there is none.
std::string ScalarText(const Json& object, std::string_view member);

bool IsUtf8(std::string_view text);

// Appends `text` as a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD.
void AppendJsonString(std::string& out, std::string_view text);

}  // namespace recourse
