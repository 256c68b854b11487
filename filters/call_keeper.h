// Who keeps a write while it runs through the chain, for its client.
#pragma once

#include <cstdint>

#include "proxy/base/call_budget.h"

namespace recourse {

// Implemented by the session. One thread.
class CallKeeper {
 public:
  virtual ~CallKeeper() = default;

  // As CallBudget::Hold::Set.
  virtual bool Hold(HeldFor what, std::size_t bytes) = 0;

  // kWaiting: it does nothing itself until another call's outcome is known.
  enum class State : std::uint8_t { kAtWork, kWaiting };
  virtual void Becomes(State state) = 0;

  // As ClientLink's.
  virtual bool HasLeft() = 0;
  virtual bool MayHaveLeft() = 0;
};

}  // namespace recourse
