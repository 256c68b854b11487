// One budget in bytes for everything that is held for calls, shared among those who make them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace recourse {

// Bytes held: by all calls, by those of one caller, by one call of it.
struct BudgetUse {
  std::size_t bytes_max = 0;
  std::size_t all = 0, caller = 0, call = 0;
};

// True when the call may hold `more`. A caller may hold three times what is free then, so that one
// alone may have three quarters of the budget, several the same each, and something is left for the
// next. A call may hold no more than its caller could still get beside it, so that small calls go
// on where large ones do not fit any more. Pure.
bool MayHold(const BudgetUse& use, std::size_t more);

// What something is held for.
enum class HeldFor : std::uint8_t {
  kCall,     // the call itself: coroutines, fields, a small body
  kBody,     // what has arrived of its body
  kReading,  // its body taken apart
  kAnswer,   // what has arrived of its answer, until the client has it
};
inline constexpr std::size_t kHeldForCount = 4;

// One per process. Thread-safe; one lock per change.
class CallBudget {
 public:
  // Of which sum a call is a part.
  enum class Of : std::uint8_t { kServed, kObserved };

 private:
  struct Account {
    std::size_t held = 0;
    std::size_t calls = 0;
  };

 public:
  explicit CallBudget(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  std::size_t bytes_max() const { return bytes_max_; }
  std::size_t held(Of of) const { return held_[static_cast<std::size_t>(of)]; }

  // What one call holds; all of it is given back when this is destroyed. One thread at a time; the
  // budget outlives it.
  class Hold {
   public:
    // Calls of one `caller` share its part.
    Hold(CallBudget& budget, Of of, const std::string& caller);
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();

    // From now on it holds `bytes` for that. False: there is no room, and it holds as much as
    // before. To hold less always succeeds.
    bool Set(HeldFor what, std::size_t bytes);

   private:
    CallBudget& budget_;
    const Of of_;
    const std::map<std::string, Account>::iterator account_;
    std::size_t sum_ = 0;
    std::array<std::size_t, kHeldForCount> parts_{};
  };

 private:
  std::map<std::string, Account>::iterator Enter(const std::string& caller);

  const std::size_t bytes_max_;
  std::array<std::atomic<std::size_t>, 2> held_{};
  std::mutex mutex_;
  std::map<std::string, Account> accounts_;  // guarded by mutex_
  std::size_t all_ = 0;                      // guarded by mutex_
};

}  // namespace recourse
