// MCP names by which a server could take a call for one of a stricter tool. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/model/policy.h"
#include "policy/model/route_tree.h"

namespace recourse {

// The names of one backend's tools as loose readers have them.
class McpTwins {
 public:
  // `name` may be a glob.
  void Add(const std::string& name, const Tool& tool);

  struct Named {
    const std::string* name = nullptr;  // as the policy has it
    const Tool* tool = nullptr;         // nullptr: none is stricter
  };
  // The tool stricter than that which a reader could take `name` for.
  Named StricterThan(int strictness, std::string_view name) const;

 private:
  Named Find(std::string_view loose) const;

  struct Entry {
    std::string name, loose;
    const Tool* tool;
  };
  TextMap<Entry> exact_;      // by what is left without joints
  std::vector<Entry> globs_;  // the one with the most literal characters first
};

// Why a call of `name`, which the policy takes for one of `tool` (nullptr: unlisted, of that
// effect), must not be passed on; names both tools. Empty: nothing is to be said against it.
std::string ObjectionToMcpName(const Policy& policy, const Backend& backend, std::string_view name,
                               const Tool* tool, Effect effect);

}  // namespace recourse
