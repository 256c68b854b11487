// The operations that wait for a human, or were approved.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "filters/ledger/model/event.h"
#include "filters/ledger/rows/row_codec.h"

namespace recourse {

struct OpenClaim {
  std::uint64_t last_event = 0;
  std::size_t bytes = 0;  // of that row
  Digest flow{};          // FlowKeyOf
  std::string caller;
};
// One thread at a time.
class OpenClaims {
 public:
  const std::map<std::uint64_t, OpenClaim>& all() const { return claims_; }  // by operation
  std::size_t size() const { return claims_.size(); }
  std::uint64_t bytes() const { return bytes_; }  // of their rows
  std::size_t CountOf(std::string_view caller) const;

  // Takes it in as its row says, which is so long, or out.
  void Track(const Event& event, std::size_t bytes);
  void Replay(const RowView& row, const EventFront& front);

 private:
  void Put(std::uint64_t operation, Phase phase, OpenClaim claim);

  std::map<std::uint64_t, OpenClaim> claims_;
  std::uint64_t bytes_ = 0;
};

}  // namespace recourse
