#include "proxy/exchange/body_reservation.h"

#include "filters/call/answers.h"

namespace recourse {
namespace {

// No agent pays so: a ServedRequest::Payer begins with digits.
constexpr const char* kOwnPayer = "recourse";

class OwnReservation final : public CallKeeper {
 public:
  explicit OwnReservation(CallBudget& budget) : hold_(budget, CallBudget::Of::kServed, kOwnPayer) {}

  bool Hold(HeldFor what, std::size_t bytes) override { return hold_.Set(what, bytes); }
  void Becomes(State) override {}
  // What is kept to be sent later is small.
  Task<bool> RunApart(Job job, Executor& /*executor*/) override {
    job();
    co_return true;
  }
  bool HasLeft() override { return false; }
  bool MayHaveLeft() override { return false; }

 private:
  CallBudget::Hold hold_;
};

}  // namespace

KeepOwn KeepOwnWithin(CallBudget& budget) {
  return [&budget]() -> std::unique_ptr<CallKeeper> {
    auto keeper = std::make_unique<OwnReservation>(budget);
    const bool fits = keeper->Hold(HeldFor::kCall, limits::kCallBytes) &&
                      keeper->Hold(HeldFor::kAnswer, limits::kAnswerFirstBytes);
    if (!fits) return nullptr;
    return keeper;
  };
}

Task<bool> JudgeApart(Services& services, std::string payer, Job job, Executor& executor) {
  services.metrics->large_bodies.Increment();
  const bool has_run =
      co_await services.large_bodies.Run(std::move(payer), std::move(job), executor);
  services.metrics->large_bodies.Decrement();
  if (!has_run) services.metrics->rejections.Add({{"reason", "large_bodies"}}).Increment();
  co_return has_run;
}

void BodyReservation::LetGoOfRequest(RequestContext& context) {
  std::string().swap(context.request.body);
  context.reading.reset();
  (void)Hold(HeldFor::kBody, 0);
  (void)Hold(HeldFor::kReading, 0);
}

WriteAnswer BodyReservation::Fit(WriteAnswer answer) {
  if (Hold(HeldFor::kAnswer, answer.response.body.size())) return answer;
  services_.metrics->rejections.Add({{"reason", "memory"}}).Increment();
  ProblemFacts facts;
  facts.speaks_for = ErrorCode::kOutcomeUnknown;
  return MakeProblem(ErrorCode::kOverloaded, "there is no memory for its stored answer now", facts);
}

}  // namespace recourse
