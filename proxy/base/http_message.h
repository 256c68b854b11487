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

// ASCII case-insensitive, as field names are.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);
std::string ToLower(std::string_view text);
// The first field of that name, or nullptr.
const std::string* FindHeader(const Headers& headers, std::string_view name);
// Replaces every field of that name by one.
void SetHeader(Headers& headers, std::string_view name, std::string_view value);
void RemoveHeader(Headers& headers, std::string_view name);

// RFC 9110 5.6.2 token; RFC 9110 5.5 field value without CR, LF, NUL and other controls.
bool IsToken(std::string_view text);
bool IsFieldValue(std::string_view text);

// Fields that carry credentials (P0 12), of requests and answers: never in a log, an export or a
// kept answer.
bool IsCredentialField(std::string_view name);

// False when an escape is malformed.
bool PercentDecode(std::string_view text, std::string& out);
// Encodes everything but RFC 3986 unreserved characters.
std::string PercentEncode(std::string_view text);

// `query` without '?'. Pairs decoded ('+' is a space), in order. Malformed escapes stay as they
// are.
std::vector<std::pair<std::string, std::string>> ParsePairs(std::string_view query);

}  // namespace recourse
