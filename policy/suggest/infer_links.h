// Values of an answer that come back later, in paths or in arguments of an MCP server's tools: the
// name of what was made, what takes it back, and what asks whether it is there. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/suggest/given_names.h"
#include "policy/suggest/infer_identity.h"
#include "policy/suggest/infer_put_back.h"
#include "policy/suggest/infer_search.h"

namespace recourse {

struct SuggestedRef {
  std::string place;          // "answer.body#/id"; empty: none
  std::size_t came_back = 0;  // of so many answers, in a later call
  std::size_t answers = 0;
  std::string undecided;  // why none
};

struct SuggestedUndo {
  // "DELETE /orders/{external_ref}"; of an MCP server: the tool, and `body` its arguments.
  std::string request;
  std::vector<std::pair<std::string, std::string>> body;  // member, template
  std::size_t tool = 0;                                   // that it calls
  bool is_form = false;
  bool is_json = false;  // also where it has no member
  bool is_delete = false;
  bool is_guess = false;  // its name may mean something else
  std::size_t taken_back = 0, of = 0;
  std::size_t gone = 0;  // reads afterwards that found nothing
};

struct SuggestedLinks {
  SuggestedRef ref;
  std::optional<SuggestedUndo> undo;
  std::optional<SuggestedPutBack> put_back;  // of a PATCH or PUT
  std::vector<std::string> other_undos;      // candidates that were not taken, in words
  std::optional<SuggestedProbe> probe;
};

// An index of the traffic, made once.
class TrafficLinks {
 public:
  // Both outlive it.
  TrafficLinks(const std::vector<Sighting>& seen, const std::vector<SeenTool>& tools);

  // `identity` is what was inferred of that tool.
  SuggestedLinks Of(std::size_t tool, const SuggestedIdentity& identity) const;

 private:
  friend class ToolLinks;

  // A value in the path of a call, below the literal segments that lead to it; or in an argument.
  struct Use {
    std::size_t call = 0, tool = 0;
  };
  void AddArguments(std::size_t tool);

  const std::vector<Sighting>& seen_;
  const std::vector<SeenTool>& tools_;
  const GivenNames given_;
  std::map<std::string, NameSlot> slots_;  // by name
  // By the value and the slot ("shop /orders/", "mcp get_order body#/id"), each by time.
  std::unordered_map<std::uint64_t, std::map<std::string, std::vector<Use>>> uses_;
};

}  // namespace recourse
