// Writes are read whole, run through the filter chain, and answered from what was recorded.
#pragma once

#include "proxy/exchange/exchange.h"

namespace recourse {

class AnswerStream;
class BodyReservation;

class WriteLane final : public Lane {
 public:
  Task<bool> Run(Exchange& exchange) override;

 private:
  static Task<bool> Execute(Exchange& exchange, BodyReservation& room, RequestContext& context);
  static Task<bool> EndStream(Exchange& exchange, AnswerStream& stream, const WriteAnswer& answer,
                              std::optional<AttemptId> answers);
};

}  // namespace recourse
