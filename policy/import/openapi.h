// What of an OpenAPI description a starting policy can be made of.
#pragma once

#include <expected>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policy/effects/declared.h"
#include "policy/language/yaml_reader.h"

namespace recourse {

struct ApiOperation {
  std::string method;  // upper case
  std::string path;    // as the description has it
  std::string id;      // operationId, or empty
  std::string summary;
  std::size_t server = 0;  // index into ApiDescription::servers
  bool has_body = false;
  bool has_form = false;                   // its body is url-encoded
  std::vector<std::string> body_ids;       // JSON pointers of required members that look like ids
  std::set<std::string> body_members;      // that can be written
  std::set<std::string> body_secrets;      // of them
  std::vector<std::string> key_headers;    // header parameters that look like idempotency keys
  std::set<std::string> query;             // names of its parameters there
  std::set<std::string> answer_members;    // of what a success answers
  std::optional<std::string> answer_list;  // a pointer to the one list in it
  std::optional<std::string> answer_ref;   // place of the new thing's name, unless it is `id`
  std::vector<std::string> notes;          // what could not be understood
  // Its `x-effect`, or one for each mutation of a GraphQL endpoint.
  std::vector<DeclaredTool> declared;
};

struct ApiDescription {
  std::string title;
  std::vector<std::string> servers;  // urls with their variables filled in; may be relative
  std::vector<ApiOperation> operations;
  std::vector<std::string> notes;
  std::vector<YamlNode::Member> backends;  // declared ones
  Problems problems;                       // knows the files of what is declared
};

struct ApiFile {
  std::string name, text;
};

// Reads OpenAPI 3.0 or 3.1, JSON or YAML, with those overlays put on it one after the other.
// References within the document are followed, with a bound on their depth; others are told in
// notes. Fails with lines "file:line:column: ..." for people.
std::expected<ApiDescription, std::string> ReadOpenApi(ApiFile file,
                                                       std::vector<ApiFile> overlays = {});

// A policy that `recourse policy check` accepts; what it guesses is marked `# CHECK:`. Fails with
// what is wrong in what is declared.
std::expected<std::string, std::string> PolicyFromOpenApi(const std::string& source,
                                                          ApiDescription api);

}  // namespace recourse
