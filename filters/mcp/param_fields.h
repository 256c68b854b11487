// The fields that repeat arguments of an MCP tool for those on the way (`x-mcp-header` in its
// schema, `Mcp-Param-*` in a request of 2026-07-28). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {

struct ParamField {
  std::string name;     // "Mcp-Param-Region"
  std::string pointer;  // into the arguments
};

// Those that an `inputSchema` declares; none where one declaration is against the rules, as then
// servers compare none. At most kParamFieldsMax.
std::vector<ParamField> ParamFieldsOf(const Json& schema);

// What the fields say wrongly, for people: a server must refuse an argument that its field does not
// repeat. Empty: nothing.
std::string ParamMismatch(const std::vector<ParamField>& fields, const Json& arguments,
                          const Headers& headers);

// A field of the modern protocol in its plain or its base64 form; nullopt: it is malformed.
std::optional<std::string> DecodedField(std::string_view value);

}  // namespace recourse
