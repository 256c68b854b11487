#include "filters/ledger/engine/index_checkpoints.h"

#include <algorithm>
#include <utility>

#include "proxy/base/check.h"

namespace recourse {

bool IndexCheckpoints::WantsFreeze() const {
  return !state_.log.is_latched() && keys().WantsFreeze(state_.log.head().seq);
}

std::shared_ptr<const IndexSnapshot> IndexCheckpoints::Freeze() {
  RC_CHECK(state_.log.batch().empty() && !state_.log.is_latched());
  IndexMark mark;
  mark.applied_seq = state_.log.head().seq;
  mark.applied_hash = state_.log.head().hash;
  mark.first_seq = state_.log.first_row();
  mark.accepted_seq = state_.accepted_row;
  mark.flows = state_.flows.Encode();
  mark.open.reserve(state_.open.size() + state_.claims.size());
  for (const auto& [operation, open] : state_.open.all()) {
    mark.open.push_back({operation, open.last_event});
  }
  for (const auto& [operation, claim] : state_.claims.all()) {
    mark.open.push_back({operation, claim.last_event});
  }
  // A call may wait for its approval while later ones come and go.
  std::ranges::sort(mark.open, {}, &OpenReference::operation);
  state_.index.FillMark(mark);
  return keys().Freeze(std::move(mark));
}

}  // namespace recourse
