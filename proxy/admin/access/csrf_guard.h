// What keeps a web page of somebody else from using an operator's browser. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/http/http_message.h"

namespace recourse {

// Whether a page could have been loaded under this Host by nobody but us: an IP literal, localhost,
// or one of `hosts` (lower case, without port). A DNS name of somebody else may lead to our address
// at any moment (DNS rebinding), and its page is then of our origin.
bool IsOwnHost(std::string_view host_field, const std::vector<std::string>& hosts);

// What the browser says about the page that makes the request.
enum class Origin : std::uint8_t {
  kUnsaid,   // no browser, or an old one
  kOwn,      // a page of ours
  kForeign,  // any other; also one that the fields disagree on
};
// `is_secure`: our side speaks TLS. Without it TLS may end before us, and both schemes are ours.
Origin OriginOf(const Headers& headers, bool is_secure);

// Values of the cookie of that name, a few at most: another server on this host may have set one.
std::vector<std::string_view> CookiesOf(const Headers& headers, std::string_view name);

}  // namespace recourse
