#include "filters/endpoint_redirect.h"

#include <fmt/format.h>

#include <algorithm>

namespace recourse {
namespace {

constexpr std::size_t kLocationBytesMax = 256;

}  // namespace

bool IsRedirect(int status) { return status >= 300 && status <= 399 && status != 304; }

std::string RedirectText(std::string_view location) {
  // What follows the path may be secret.
  location = location.substr(0, std::min(location.find_first_of("?#"), kLocationBytesMax));
  const bool is_plain = std::ranges::all_of(location, [](char c) { return c > ' ' && c < 0x7f; });
  if (location.empty() || !is_plain) {
    return "the server redirects to another url; put that url in the policy";
  }
  return fmt::format("the server redirects to {}; put that url in the policy", location);
}

}  // namespace recourse
