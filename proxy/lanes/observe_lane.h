// Observe mode: every call goes on as it came. Calls that enforce would take for writes are
// observed beside the stream; nothing is refused here that can be forwarded.
#pragma once

#include "proxy/exchange/exchange.h"

namespace recourse {

class ObserveLane final : public Lane {
 public:
  // Both outlive it.
  ObserveLane(Lane& read, const EndpointLanes& endpoints) : read_(read), endpoints_(endpoints) {}

  Task<bool> Run(Exchange& exchange) override;

 private:
  void JudgeEndpoint(ServedRequest& request) const;
  static void Judge(ServedRequest& request);

  Lane& read_;
  const EndpointLanes& endpoints_;
};

}  // namespace recourse
