// Who keeps a write while it runs through the chain, for its client.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "proxy/base/call_budget.h"
#include "proxy/base/executor.h"

namespace recourse {

// Implemented by the exchange. One thread.
class CallKeeper {
 public:
  virtual ~CallKeeper() = default;

  // As CallBudget::Hold::Set.
  virtual bool Hold(HeldFor what, std::size_t bytes) = 0;

  // kWaiting: it does nothing itself until another call's outcome is known.
  enum class State : std::uint8_t { kAtWork, kWaiting };
  virtual void Becomes(State state) = 0;

  // Runs `job` where it holds up nobody, and resumes on `executor`. Until then nobody else touches
  // what it uses. False: too many wait for that, and it was not run.
  virtual Task<bool> RunApart(Job job, Executor& executor) = 0;

  // As ClientLink's.
  virtual bool HasLeft() = 0;
  virtual bool MayHaveLeft() = 0;
};

// Keeps one request that Recourse sends by itself: an undo, a probe, what humans have approved,
// what is sent again. It has room for what most of those take; null: there is none now.
using KeepOwn = std::function<std::unique_ptr<CallKeeper>()>;

// For as long as such a request and its answer are here. Without `keep` there is always room.
struct OwnRoom {
  explicit OwnRoom(const KeepOwn& keep) : keeper(keep ? keep() : nullptr) {
    is_there = !keep || keeper;
  }
  std::unique_ptr<CallKeeper> keeper;
  bool is_there = false;
};
inline constexpr std::string_view kNoRoom = "there is no memory for its answer now";

}  // namespace recourse
