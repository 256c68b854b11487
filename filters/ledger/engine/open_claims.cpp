#include "filters/ledger/engine/open_claims.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/open_flows.h"

namespace recourse {

std::size_t OpenClaims::CountOf(std::string_view caller) const {
  return static_cast<std::size_t>(
      std::count_if(claims_.begin(), claims_.end(),
                    [&](const auto& claim) { return claim.second.caller == caller; }));
}

void OpenClaims::Track(const Event& event, std::size_t bytes) {
  OpenClaim claim{.last_event = event.id, .bytes = bytes, .flow = {}, .caller = event.caller};
  if (IsClaim(event.phase)) claim.flow = FlowKeyOf(event.caller, event.flow);
  Put(event.operation, event.phase, std::move(claim));
}

void OpenClaims::Replay(const RowView& row, const EventFront& front) {
  OpenClaim claim{.last_event = row.head.seq, .bytes = row.bytes.size(), .flow = {}, .caller = {}};
  if (IsClaim(front.phase)) {
    const auto news = NewsOf(row);
    claim.caller = news ? news->caller : std::string_view();
    claim.flow = FlowKeyOf(claim.caller, news ? news->flow : std::string_view());
  }
  Put(front.operation, front.phase, std::move(claim));
}

void OpenClaims::Put(std::uint64_t operation, Phase phase, OpenClaim claim) {
  if (const auto known = claims_.find(operation); known != claims_.end()) {
    bytes_ -= known->second.bytes;
    claims_.erase(known);
  }
  if (!IsClaim(phase)) return;
  bytes_ += claim.bytes;
  claims_.emplace(operation, std::move(claim));
}

}  // namespace recourse
