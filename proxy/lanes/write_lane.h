// Writes are read whole, run through the filter chain, and answered from what was recorded.
#pragma once

#include <string>

#include "proxy/exchange/exchange.h"

namespace recourse {

class AnswerStream;
class BodyReservation;

class WriteLane final : public Lane {
 public:
  Task<bool> Run(Exchange& exchange) override;
  // The same where the body is here, and the head as well.
  static Task<bool> RunRead(Exchange& exchange, BodyReservation& room, std::string body);

 private:
  // What is refused before anything of the body is looked at.
  static std::optional<CallRefusal> Refusal(const ServedRequest& request);
  // Once its body is in the context.
  static Task<bool> Check(Exchange& exchange, BodyReservation& room, RequestContext& context);
  static Task<bool> Execute(Exchange& exchange, BodyReservation& room, RequestContext& context);
  static Task<bool> EndStream(Exchange& exchange, AnswerStream& stream, const WriteAnswer& answer,
                              std::optional<AttemptId> answers);
};

}  // namespace recourse
