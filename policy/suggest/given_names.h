// Which call gave the name that a later one uses. Where every collection counts from 1, equal
// values alone tell nothing: the collection that is named does, and the trace. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/suggest/seen_tools.h"

namespace recourse {

// How what a tool makes stands to a place where later calls say a name.
enum class Nearness : std::uint8_t {
  kOther,           // another collection
  kUnnamed,         // none is named there
  kSameCollection,  // "/customers/{id}/orders" and "/orders/{id}"
  kSamePath,        // "/orders" and "/orders/{id}"; or a member that is called like it
};
inline bool IsNear(Nearness nearness) { return nearness >= Nearness::kSameCollection; }

// Where later calls say a name: in their path below literal segments, or in a member.
struct NameSlot {
  std::string name;                // "shop /orders/", "mcp get_order body#/id"
  std::vector<Nearness> nearness;  // by tool
  bool has_near = false;           // some tool that makes things is near to it
};

class GivenNames {
 public:
  // Both outlive it.
  GivenNames(const std::vector<Sighting>& seen, const std::vector<SeenTool>& tools);

  NameSlot SegmentSlot(std::size_t tool, std::size_t segment) const;
  NameSlot MemberSlot(std::size_t tool, std::string_view place) const;

  // The tool whose answer gave `value` to that later call: of those that are near to the slot, if
  // any is, the last one of its trace, without one of its caller. Else the only one there is.
  std::optional<std::size_t> GiverOf(std::uint64_t value, std::size_t use,
                                     const NameSlot& slot) const;
  // No other tool's answer ever had it.
  bool IsOfOneTool(std::uint64_t value) const;

 private:
  struct Given {
    std::size_t call = 0;
    bool is_echo = false;  // the call had said it itself
  };
  using ByTool = std::map<std::size_t, std::vector<Given>>;

  void Finish(NameSlot& slot, const SeenTool& later) const;
  bool IsOfUse(const Given& given, std::size_t use) const;
  std::optional<std::size_t> GiverAmong(const ByTool& givers, std::size_t use, const NameSlot& slot,
                                        Nearness nearness, bool is_echo) const;

  const std::vector<Sighting>& seen_;
  const std::vector<SeenTool>& tools_;
  std::unordered_map<std::uint64_t, ByTool> givers_;  // by value
  std::vector<char> makes_;                           // by tool: it gave what it was not told
};

}  // namespace recourse
