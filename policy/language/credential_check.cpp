#include "policy/language/credential_check.h"

#include <algorithm>
#include <array>

namespace recourse {
namespace {

// What a credential begins with, and how many characters of its alphabet follow at least: a word in
// a comment about such keys is none.
struct Shape {
  std::string_view start;
  std::size_t length_min;
};
constexpr std::array<Shape, 14> kShapes{{{"sk_live_", 8},
                                         {"sk_test_", 8},
                                         {"rk_live_", 8},
                                         {"whsec_", 8},
                                         {"AKIA", 16},
                                         {"ASIA", 16},
                                         {"ghp_", 20},
                                         {"github_pat_", 20},
                                         {"glpat-", 16},
                                         {"xoxb-", 10},
                                         {"xoxp-", 10},
                                         {"AIza", 30},
                                         {"Bearer ey", 8},
                                         {"-----BEGIN ", 3}}};

bool IsTokenChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/' || c == '+' || c == '=';
}

bool IsAt(std::string_view text, std::size_t at, const Shape& shape) {
  // In the middle of a word it is something else.
  if (at > 0 && IsTokenChar(text[at - 1]) && shape.start[0] != '-' && text[at - 1] != '=') {
    return false;
  }
  std::size_t length = 0;
  for (std::size_t i = at + shape.start.size(); i < text.size() && IsTokenChar(text[i]); ++i) {
    ++length;
  }
  return length >= shape.length_min;
}

// Where one stands; npos: nowhere.
std::size_t FindSecret(std::string_view line) {
  for (const Shape& shape : kShapes) {
    for (auto at = line.find(shape.start); at != std::string_view::npos;
         at = line.find(shape.start, at + 1)) {
      if (IsAt(line, at, shape)) return at;
    }
  }
  return std::string_view::npos;
}

// "://user:password@" (RFC 3986 3.2.1), or a parameter of that name.
bool HasPasswordInUrl(std::string_view text) {
  if (text.contains("?password=") || text.contains("&password=")) return true;
  constexpr std::string_view kScheme = "://";
  for (auto at = text.find(kScheme); at != std::string_view::npos; at = text.find(kScheme, at)) {
    at += kScheme.size();
    const auto end = std::min(text.find_first_of("/?# \t\r\n\"'", at), text.size());
    const std::string_view authority = text.substr(at, end - at);
    const auto sign = authority.rfind('@');
    const auto colon = authority.find(':');
    if (sign != std::string_view::npos && colon + 1 < sign) return true;
  }
  return false;
}

}  // namespace

bool HoldsSecret(std::string_view text) {
  return FindSecret(text) != std::string_view::npos || HasPasswordInUrl(text);
}

void RefuseSecrets(std::size_t file, std::string_view text, Problems& problems) {
  for (int line = 1; !text.empty(); ++line) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::size_t at = FindSecret(text.substr(0, end));
    if (at != std::string_view::npos) {
      problems.Error({file, line, static_cast<int>(at) + 1}, "",
                     "this looks like a credential, and a policy is no place for one: pass the "
                     "agent's own header on (\"{header.Authorization}\"), or name the mounted file "
                     "that holds it");
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace recourse
