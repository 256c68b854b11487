// Which pod wrote a row of a shared ledger. Thread-safe; may block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/row_id.h"
#include "filters/ledger/shared_view.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

// Who wrote a row.
struct RowPod {
  std::uint64_t stream = 0;
  std::string pod;
};
inline constexpr JsonMember<RowPod> kPodMembers[] = {
    member::Number<&RowPod::stream>("stream",
                                    "Of a shared ledger: which start of a process wrote it")
        .MayLack(),
    member::Text<&RowPod::pod>("pod", "Of a shared ledger: where that ran").MayLack(),
};

class PodNames {
 public:
  // `ledger` outlives it.
  explicit PodNames(Ledger& ledger) : shared_(dynamic_cast<SharedLedgerView*>(&ledger)) {}

  // Whether there are pods to tell apart.
  bool is_shared() const { return shared_ != nullptr; }
  // Adds the members of who wrote that row; nothing where the ledger is of one process.
  void Write(JsonObject& json, std::uint64_t row);
  // Of a row: whether that pod wrote it.
  std::function<bool(std::uint64_t row)> AreOf(std::string pod) {
    return [this, pod = std::move(pod)](std::uint64_t row) {
      return Of(UnpackRowId(row).stream) == pod;
    };
  }

 private:
  std::string Of(std::uint64_t stream);

  SharedLedgerView* const shared_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::string> known_;  // guarded by mutex_; by stream
};

}  // namespace recourse
