// What a call that begins does, as values.
#pragma once

#include <cstdint>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rules/plan.h"

namespace recourse {

struct BeginPlan {
  Plan plan{};
  Begun begun{};  // with the event of the plan's first row, if it has one that is no alias
  // The row that holds the reply's event is not durable yet: it stands in the batch, and is read
  // after the commit. 0: it is there.
  std::uint64_t load_after_commit = 0;
  std::uint64_t waits_for = 0;  // from now on the call's client waits for this operation; 0: none
  bool writes_event = false;    // the caller waits for the commit
  // Of the reply's event.
  enum class Request : std::uint8_t { kStays, kGoesBack, kWithSender };
  Request request = Request::kStays;  // kGoesBack: into the call, for its sender
  bool may_have_effect = false;       // of an earlier attempt, should the plan fail
};

}  // namespace recourse
