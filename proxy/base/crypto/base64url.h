// base64url without padding (RFC 4648 section 5), as RFC 7515 writes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace recourse {

std::string ToBase64Url(std::string_view bytes);

// nullopt for padding, other characters, and for the spellings that no encoder makes: a last
// character with bits that say nothing. So each value has one text.
std::optional<std::string> FromBase64Url(std::string_view text);

}  // namespace recourse
