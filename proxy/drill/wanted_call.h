// What must hold, and what must not, of a made-up call and its answer, for the tool to take it for
// done and to undo it by one of its undo requests. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/base/json/json.h"

namespace recourse {

struct WantedCall {
  // What stands at a place; nullopt: any value will do.
  struct Value {
    Selector place;
    std::optional<Json> value;
  };
  std::vector<Condition> holds, fails;

  // Nothing may stand there.
  bool IsAbsent(const Selector& place) const;
  // What makes them hold, and fail.
  std::vector<Value> Values() const;
};

// `undo`: an index into UndosOf.
WantedCall WantedCallOf(const Tool& tool, std::size_t undo);

}  // namespace recourse
