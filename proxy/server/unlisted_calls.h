// Counts the calls that no tool of the policy matches, by backend, method and shape of the path.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "filters/report/report.h"
#include "policy/policy.h"

namespace recourse {

struct UnlistedCount {
  std::string backend, effect, method, path;  // path: its shape
  std::uint64_t calls = 0;
};

// One per I/O thread, which alone counts; anybody may read meanwhile. Counting neither locks nor
// allocates. Since the start of the process.
class UnlistedCalls {
 public:
  UnlistedCalls() : slots_(std::make_unique<Slots>()) {}

  // Beyond kUnlistedShapesMax shapes calls are counted as other() only.
  void Count(const Backend& backend, Effect effect, std::string_view method, std::string_view path);

  std::vector<UnlistedCount> Read() const;  // thread-safe
  std::uint64_t other() const { return other_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kNameBytesMax = 64;
  struct Slot {
    // 0: free. Written last: whoever reads it sees the texts below, which never change then.
    std::atomic<std::uint64_t> hash{0};
    std::atomic<std::uint64_t> calls{0};
    Effect effect = Effect::kRead;
    char backend[kNameBytesMax] = {};
    char method[limits::kMethodBytesMax + 1] = {};
    char path[limits::kUnlistedShapeBytesMax + 1] = {};
  };
  using Slots = std::array<Slot, limits::kUnlistedShapesMax>;

  std::unique_ptr<Slots> slots_;
  std::atomic<std::uint64_t> other_{0};
};

// The reads among them (writes are in the ledger), those of one shape together, most calls first.
std::vector<UnlistedLine> ReadsOf(const std::vector<UnlistedCount>& counts);

}  // namespace recourse
