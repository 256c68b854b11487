// The backends of a starting policy: the servers of a description, or those that its owner
// declares.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/import/openapi.h"

namespace recourse {

struct ApiBackend {
  std::string name, url, note, key_header{};
  std::optional<YamlNode> declared{};  // with its url
};

// Which backend each server of the description is, and what a path there begins with.
class ApiBackends {
 public:
  explicit ApiBackends(const ApiDescription& api);

  const std::vector<ApiBackend>& all() const { return all_; }
  struct At {
    std::size_t backend = 0;
    std::string prefix;
  };
  // Where the facts of a call name their backend, its path begins at that one's url.
  At PlaceOf(const ApiOperation& operation) const;

 private:
  void Declare(const ApiDescription& api, const YamlNode::Member& member);
  void AddServer(const ApiDescription& api, const std::string& server);
  // Where every write takes it; where facts are declared, those count.
  void GuessKeys(const ApiDescription& api);

  std::vector<ApiBackend> all_;
  std::vector<At> of_server_;
  std::set<std::string> taken_;
};

}  // namespace recourse
