// HTTP messages as owned values, for everything off the read lane.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace recourse {

using Header = std::pair<std::string, std::string>;
using Headers = std::vector<Header>;

struct HttpRequest {
  std::string method;
  std::string target;  // origin-form, as sent upstream
  Headers headers;     // end-to-end fields only, in order, names as received
  std::string body;
};

struct HttpResponse {
  int status = 0;
  std::string reason;
  Headers headers;  // end-to-end fields only; framing is written by whoever sends the message
  std::string body;
};

constexpr bool IsSuccess(int status) { return status >= 200 && status <= 299; }

// Of two texts of one size.
bool HaveEqualLetters(std::string_view a, std::string_view b);
// ASCII case-insensitive, as field names are. Most names differ in length already, which is seen
// without a call.
inline bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && HaveEqualLetters(a, b);
}
std::string ToLower(std::string_view text);
// The first field of that name, or nullptr.
const std::string* FindHeader(const Headers& headers, std::string_view name);
// Replaces every field of that name by one.
void SetHeader(Headers& headers, std::string_view name, std::string_view value);
void RemoveHeader(Headers& headers, std::string_view name);

// Whether the method only reads by what it means: GET, HEAD and OPTIONS.
constexpr bool IsReadMethod(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

// Without SP and HTAB at both ends.
constexpr std::string_view TrimBlanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// RFC 9110 5.6.2 token; RFC 9110 5.5 field value without CR, LF, NUL and other controls.
bool IsToken(std::string_view text);
bool IsFieldValue(std::string_view text);

// Fields that carry credentials, of requests and answers: never in a log, an export or a
// kept answer.
bool IsCredentialField(std::string_view name);

// What RFC 3986 2.3 never needs to escape.
constexpr bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}
// False when an escape is malformed.
bool PercentDecode(std::string_view text, std::string& out);
// Encodes everything but RFC 3986 unreserved characters.
std::string PercentEncode(std::string_view text);

// Names with their values, of a query, a form or a path.
using Pairs = std::vector<std::pair<std::string, std::string>>;
// `query` without '?'. Pairs decoded ('+' is a space), in order. Malformed escapes stay as they
// are.
Pairs ParsePairs(std::string_view query);
// How many there would be.
std::size_t CountPairs(std::string_view query);

}  // namespace recourse
