// Observe mode: every call goes on as it came. Calls that enforce would take for writes are
// observed beside the stream; nothing is refused here that can be forwarded.
#pragma once

#include "proxy/exchange/exchange.h"

namespace recourse {

class ObserveLane final : public Lane {
 public:
  // It outlives this one.
  explicit ObserveLane(Lane& read) : read_(read) {}

  Task<bool> Run(Exchange& exchange) override;

 private:
  static void JudgeEndpoint(ServedRequest& request);
  static void Judge(ServedRequest& request);

  Lane& read_;
};

}  // namespace recourse
