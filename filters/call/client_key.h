// The intent that an agent names itself: Idempotency-Key or Recourse-Intent.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "policy/model/policy.h"
#include "proxy/base/error.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

inline constexpr std::string_view kKeyField = "Idempotency-Key";

// The value of such a field: a quoted RFC 8941 string, decoded, or a bare text as SDKs send it. The
// bare form is visible ASCII without quotes, commas, semicolons, backslashes and "../". Fails with
// kInvalidKey, also when empty or over 255 bytes.
Result<std::string> ParseClientKey(std::string_view field);

// The text as such a field has it: the quoted form.
std::string QuotedKey(std::string_view text);

struct ClientIntent {
  std::optional<std::string> key;     // decoded Idempotency-Key
  std::optional<std::string> intent;  // what names the call: either field
  bool is_for_us = false;             // the intent stands where only Recourse looks
};
// Fails with kInvalidKey when a field occurs twice, cannot be read, or when both occur and differ.
Result<ClientIntent> ReadClientIntent(const Headers& headers);

// Where the backend reads keys in another field, what the agent wrote there is its key: it moves to
// Idempotency-Key. Beside another key there it makes a second field, which is refused when it is
// read. A key in Idempotency-Key that has not the form which the backend takes names the intent
// only: it moves to Recourse-Intent. Pure.
void AdoptKeyField(const KeyRule& rule, Headers& headers);

// Spells a call that names `intent` as the first attempt of its operation was: with Idempotency-Key
// as it stood there, or without one, if `field` is empty.
void SpellKey(const std::string& field, const std::string& intent, Headers& headers);

}  // namespace recourse
