// Where the values of later calls come from. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/suggest/seen_tools.h"

namespace recourse {

// A call of a tool, and another one that names what it made.
struct LaterCall {
  std::size_t made = 0, later = 0;
};

// Whether a member and a place are called alike: "order" and "body#/order_id".
bool AreCalledAlike(std::string_view member, std::string_view place);

class ValueSources {
 public:
  // `ref_place` is where answers tell the name of what the tool made. All outlive it.
  ValueSources(const std::vector<Sighting>& seen, const SeenTool& tool,
               const std::string& ref_place)
      : seen_(seen), tool_(tool), ref_place_(ref_place) {}

  // Which value of the call made the later one's in all pairs: "external_ref", "path.id",
  // "body#/amount". Of several the one that is called alike; nullopt: none, or nothing tells which.
  std::optional<std::string> Of(
      const std::vector<LaterCall>& pairs, std::string_view called,
      const std::function<std::optional<std::uint64_t>(const LaterCall&)>& value_of) const;
  // Of an MCP server: the name of the tool.
  std::optional<std::string> PathFor(const SeenTool& later,
                                     const std::vector<LaterCall>& pairs) const;

 private:
  const std::vector<Sighting>& seen_;
  const SeenTool& tool_;
  const std::string& ref_place_;
};

}  // namespace recourse
