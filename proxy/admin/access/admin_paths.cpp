#include "proxy/admin/access/admin_paths.h"

#include "proxy/base/http/http_message.h"

namespace recourse::admin_paths {

std::string FillPlace(std::string_view pattern, std::string_view value) {
  const auto begin = pattern.find('{'), end = pattern.find('}') + 1;
  return std::string(pattern.substr(0, begin))
      .append(PercentEncode(value))
      .append(pattern.substr(end));
}

std::string_view PlaceIn(std::string_view pattern, std::string_view path) {
  path.remove_prefix(pattern.find('{'));
  return path.substr(0, path.find('/'));
}

}  // namespace recourse::admin_paths
