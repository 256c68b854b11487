// What of an OpenAPI description a starting policy can be made of.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

struct ApiOperation {
  std::string method;  // upper case
  std::string path;    // as the description has it
  std::string id;      // operationId, or empty
  std::string summary;
  std::size_t server = 0;  // index into ApiDescription::servers
  bool has_body = false;
  std::vector<std::string> body_ids;      // JSON pointers of required members that look like ids
  std::vector<std::string> key_headers;   // header parameters that look like idempotency keys
  std::optional<std::string> answer_ref;  // place of the new thing's name, unless it is `id`
  std::vector<std::string> notes;         // what could not be understood
};

struct ApiDescription {
  std::string title;
  std::vector<std::string> servers;  // urls with their variables filled in; may be relative
  std::vector<ApiOperation> operations;
  std::vector<std::string> notes;
};

// Reads OpenAPI 3.0 or 3.1, JSON or YAML. References within the document are followed, with a bound
// on their depth; others are told in notes. Fails with "file:line:column: ..." for people.
std::expected<ApiDescription, std::string> ReadOpenApi(const std::string& name, std::string text);

// A policy that `recourse policy check` accepts; what it guesses is marked `# CHECK:`.
std::string PolicyFromOpenApi(const std::string& source, const ApiDescription& api);

}  // namespace recourse
