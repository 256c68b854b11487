// A probe that looks into a list: which question leads to what was made, and which members tell it
// from the rest. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/suggest/infer_identity.h"
#include "policy/suggest/seen_tools.h"

namespace recourse {

struct SuggestedProbe {
  std::string request;                                         // of an MCP server: the tool
  std::vector<std::pair<std::string, std::string>> arguments;  // of that: member, template
  std::string happened;               // the place of the name; of a search the list
  std::vector<std::string> where;     // of a search: "from == {body#/from}"
  std::string take;                   // likewise: the name's member
  std::vector<std::string> asks_for;  // places of the call whose values it asks for
  std::size_t found = 0;              // what was made after so many intents

  // Whether it asks for all of the identity: one that asks for a part may find another call's.
  bool IsSure(const SuggestedIdentity& of) const {
    return !of.identity.empty() && of.doubted.empty() &&
           std::ranges::all_of(of.identity, [&](const auto& place) {
             return std::ranges::find(asks_for, place) != asks_for.end();
           });
  }
};

// What the calls of one tool made.
struct MadeThings {
  const SeenTool& tool;
  const SuggestedIdentity& identity;
  const std::map<std::uint64_t, std::size_t>& made;  // by the name: the call that told it first
  // Whether some write named it between these two calls, so that it may be gone.
  std::function<bool(std::uint64_t name, std::size_t after, std::size_t before)> was_touched;
};

// Only one that asks for all of the identity, and never found two.
std::optional<SuggestedProbe> InferSearch(const std::vector<Sighting>& seen,
                                          const std::vector<SeenTool>& tools,
                                          const MadeThings& things);

}  // namespace recourse
