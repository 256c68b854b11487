// Counts calls by backend, method, shape of the path and, where there is one, a reason.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/report/report.h"

namespace recourse {

struct ShapeCount {
  std::string backend, effect, method, path, reason;  // path: its shape
  std::uint64_t calls = 0;
};

// One per I/O thread, which alone counts; anybody may read meanwhile. Counting does not lock, and
// allocates the first time only: most processes never count any. Since the start of the process.
class CallShapes {
 public:
  explicit CallShapes(std::size_t shapes_max) : size_(shapes_max) {}
  ~CallShapes() { delete[] slots_.load(); }
  CallShapes(const CallShapes&) = delete;
  CallShapes& operator=(const CallShapes&) = delete;

  // Beyond so many shapes calls are counted as other() only.
  void Count(const Backend& backend, Effect effect, std::string_view method, std::string_view path,
             std::string_view reason = {});

  std::vector<ShapeCount> Read() const;  // thread-safe
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
    char reason[limits::kRefusalReasonBytesMax + 1] = {};
  };

  const std::size_t size_;
  std::atomic<Slot*> slots_{nullptr};  // `size_` of them, owned; null: nothing was counted
  std::atomic<std::uint64_t> other_{0};
};

// Those of one shape together, most calls first.
std::vector<UnlistedLine> UnlistedReadsOf(const std::vector<ShapeCount>& counts);  // the reads only
std::vector<RefusedLine> RefusedOf(const std::vector<ShapeCount>& counts);

}  // namespace recourse
