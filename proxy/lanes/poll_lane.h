// An agent asks what became of a call of its own that waited for a human.
#pragma once

#include "proxy/exchange/exchange.h"

namespace recourse {

class PollLane final : public Lane {
 public:
  Task<bool> Run(Exchange& exchange) override;
};

}  // namespace recourse
