// One request of a command to the admin API of a running process.
#pragma once

#include <cstdint>
#include <expected>
#include <iosfwd>
#include <string>
#include <string_view>

#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"
#include "proxy/cli/api_client.h"
#include "proxy/config/files.h"
#include "proxy/net/beast/http_client.h"

namespace recourse {

inline constexpr std::string_view kNotUnderstood = "the admin API's answer is not understood";

inline constexpr std::string_view kLedgerAway = "the ledger's database does not answer";

// What one answer of the admin API lists at most.
inline constexpr std::uint64_t kAdminPageMax = 1'000;

// A member as text that is safe on a terminal; empty: there is none.
std::string Printable(const Json& object, std::string_view name);

// The tool of an event or operation, or of what it undoes.
std::string ToolOrUndo(const Json& event);

// On one line, with numbers as people write them.
std::string LineOfJson(const Json& value);

// Appends the items of a page's list to one that is shown as JSON, in the server's own words.
void AppendItems(std::string& list, std::string_view page, std::string_view name);

// Where the admin API is: HOST:PORT, or a url of it.
FileResult<HttpPlace> AdminPlaceOf(const ApiClient& client);
// A token must not go to whoever happens to listen there. Asks once.
FileResult<void> ProveAdmin(const ApiClient& client, const HttpPlace& place);

struct AdminTarget {
  HttpPlace place;
  HttpRequest request;  // with the token
};
FileResult<AdminTarget> PrepareAdminCall(const ApiClient& client, HttpRequest request);

// The body of a 200; any other answer is an error for people. `status` is that of the answer, 0
// without one.
FileResult<std::string> Call(const ApiClient& client, HttpRequest request, int* status = nullptr);
inline FileResult<std::string> Call(const ApiClient& client, const std::string& method,
                                    const std::string& target) {
  return Call(client, {method, target, {}, {}});
}

// GET /ledger, for who has to know where it is by now: fails while its database is away. `text`: as
// it came.
FileResult<Json> LedgerOf(const ApiClient& client, std::string* text = nullptr);

// Prints the line and gives the exit code.
int Fail(std::ostream& err, std::string_view what);

// What `request` is answered: as it came with --json, else parsed, for the caller to print. The
// exit code when nothing is left to print.
std::expected<Json, int> Show(const ApiClient& client, const HttpRequest& request,
                              std::ostream& out, std::ostream& err);
inline std::expected<Json, int> Show(const ApiClient& client, const std::string& target,
                                     std::ostream& out, std::ostream& err) {
  return Show(client, HttpRequest{"GET", target, {}, {}}, out, err);
}

}  // namespace recourse
