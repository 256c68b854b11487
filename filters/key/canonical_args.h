// The arguments of a call in one form, whatever bytes the client wrote them with.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/call/call_values.h"

namespace recourse {

struct CallArgs {
  const std::string& method;
  const std::string& path;    // canonical
  const std::string& target;  // as sent upstream; its query counts when an escape is malformed
  const std::vector<std::pair<std::string, std::string>>& query;  // decoded
  const CallBody& body;
  const std::string& json;      // of such a body: its canonical text without what is ignored
  const std::string& raw_body;  // the bytes that `body` was read from
  const std::vector<std::string>& ignore;  // JSON pointers; "/name" names a form field
};

// Whether a form field of that name is one of the pointers.
bool IsIgnored(std::string_view name, const std::vector<std::string>& ignore);

// Equal for two calls exactly when their arguments are: method, path, query pairs and form pairs
// sorted by name (equal names keep their order; where that of others says something, see
// pair_order.h), JSON in canonical text, multipart without its
// boundary, raw bytes with their type. Every part is preceded by its length.
std::string CanonicalArgs(const CallArgs& args);

}  // namespace recourse
