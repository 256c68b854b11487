// JSON as an API server reads it, and patches of it (RFC 6902).
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/json/json.h"

namespace recourse {

Json JsonText(std::string_view text);
Json JsonArray(std::vector<Json> items);

// In document order, and with whole numbers written out: Kubernetes takes no 1e3 for 1000.
std::string PlainJson(const Json& value);

// A patch that only adds. The operations are applied in their order.
class JsonPatch {
 public:
  // Puts the value there: a new member or one in place of the present one, a new item before the
  // present one, or after all of them (`-`). What the pointer goes through must be there by then.
  void Add(std::string_view pointer, const Json& value);

  bool is_empty() const { return operations_.empty(); }
  std::string text() const { return '[' + operations_ + ']'; }

 private:
  std::string operations_;
};

}  // namespace recourse
