#include "proxy/server/held.h"

#include "filters/answers.h"

namespace recourse {

void Held::LetGoOfRequest(RequestContext& context) {
  std::string().swap(context.request.body);
  context.reading.reset();
  (void)Hold(HeldFor::kBody, 0);
  (void)Hold(HeldFor::kReading, 0);
}

WriteAnswer Held::Fit(WriteAnswer answer) {
  if (Hold(HeldFor::kAnswer, answer.response.body.size())) return answer;
  services_.metrics->rejections.Add({{"reason", "memory"}}).Increment();
  ProblemFacts facts;
  facts.speaks_for = ErrorCode::kOutcomeUnknown;
  return MakeProblem(ErrorCode::kOverloaded, "there is no memory for its stored answer now", facts);
}

}  // namespace recourse
