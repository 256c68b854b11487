#include "proxy/exchange/observation.h"

#include <utility>

#include "filters/call/answers.h"
#include "filters/call/call_values.h"
#include "filters/call/outcome.h"
#include "filters/ledger/model/row_id.h"

namespace recourse {
namespace {

void CountDropped(Metrics& metrics, std::string_view reason) {
  metrics.observed_dropped.Add({{"reason", std::string(reason)}}).Increment();
}

Headers FieldsOf(const Head& head) {
  Headers fields;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (!head.fields[i].hop) fields.emplace_back(head.fields[i].name, head.fields[i].value);
  }
  return fields;
}

}  // namespace

HttpResponse FailureAnswer(const Error& error, bool sends_once, bool broke_off) {
  const ErrorCode code = error.code();
  const bool was_sent = broke_off || code == ErrorCode::kBackendTimeout ||
                        code == ErrorCode::kBackendReset || code == ErrorCode::kBackendProtocol;
  ProblemFacts facts;
  if (sends_once && was_sent) facts.speaks_for = ErrorCode::kMayHaveActed;
  return MakeProblem(code, error.detail(), facts).response;
}

std::shared_ptr<Observation> Observation::Start(Worker& worker, std::shared_ptr<PolicyView> view,
                                                const std::string& payer) {
  if (worker.services.observing >= limits::kObservedCallsMax) {
    CountDropped(*worker.services.metrics, "too-many");
    return nullptr;
  }
  return std::make_shared<Observation>(worker, std::move(view), payer);
}

Observation::Observation(Worker& worker, std::shared_ptr<PolicyView> view, const std::string& payer)
    : worker_(worker),
      view_(std::move(view)),
      payer_(payer),
      hold_(worker.services.budget, CallBudget::Of::kObserved, payer) {
  ++worker_.services.observing;
  call_.context.keeper = this;
}

Observation::~Observation() { --worker_.services.observing; }

void Observation::TakeRequest(const BodyDecoder::Piece& piece) {
  std::string& body = call_.context.request.body;
  if (body.size() + piece.data.size() > limits::kWriteBodyBytesMax && !call_.refusal) {
    Refuse(CallRefusal(ErrorCode::kRequestTooLarge, "the body of a write may have at most 8 MiB"));
  }
  if (keeps_request_ &&
      (call_.refusal || !hold_.Set(HeldFor::kBody, body.size() + piece.data.size()))) {
    keeps_request_ = false;
    std::string().swap(body);
    (void)hold_.Set(HeldFor::kBody, 0);
  }
  if (!keeps_request_) return;
  body.append(piece.data);
  call_.is_whole = piece.end == BodyDecoder::End::kComplete;
}

Task<bool> Observation::LookAtRequest(Job look) {
  if (call_.context.request.body.size() < limits::kLargeBodyBytes) {
    look();
    co_return true;
  }
  const bool has_run = co_await RunApart(std::move(look), worker_.thread);
  if (!has_run) Refuse(CallRefusal(ErrorCode::kOverloaded, std::string(kNoRoomApart)));
  co_return has_run;
}

void Observation::TakeAnswerHead(const Head& head) {
  Answer answer;
  answer.response.status = head.status;
  answer.response.reason = std::string(head.reason);
  answer.response.headers = FieldsOf(head);
  answer.body_complete = head.body == BodyKind::kNone;
  answer.until_close = head.body == BodyKind::kUntilClose;
  const RequestContext& context = call_.context;
  keeps_answer_ = answer.until_close || ReadsAnswerBody(ToolOf(context), context.backend) ||
                  IsEndpointMessage(*context.backend, context.request);
  call_.result = std::move(answer);
}

void Observation::TakeAnswer(const BodyDecoder::Piece& piece) {
  Answer& answer = *call_.result;
  answer.body_complete = piece.end == BodyDecoder::End::kComplete;
  if (!keeps_answer_) return;
  std::string& body = answer.response.body;
  const std::size_t size = body.size() + piece.data.size();
  answer.over_cap = size > limits::kAnswerBytesMax;
  keeps_answer_ = !answer.over_cap && hold_.Set(HeldFor::kAnswer, size);
  if (keeps_answer_) {
    body.append(piece.data);
  } else {
    std::string().swap(body);
    (void)hold_.Set(HeldFor::kAnswer, 0);
  }
}

void Observation::AnswerBroke(bool client_left) {
  if (!call_.result) return;
  // What the backend said stands, although nobody read all of it.
  call_.result->body_complete = client_left;
  call_.result->until_close = false;
}

void Observation::Ended(const RequestRecord& record, std::chrono::nanoseconds took) {
  record_ = record;
  if (!record_.caller.empty()) record_.caller = call_.context.caller;  // the connection may end
  took_ = took;
  Write();
  worker_.services.observer->End(call_);
}

void Observation::Write() {
  if (std::exchange(is_writing_, true)) return;
  Spawn(Run(shared_from_this()), [] {});
}

Task<void> Observation::Run(std::shared_ptr<Observation> self) {
  const Result<void> done = co_await self->worker_.services.observer->Watch(self->call_);
  self->Note(done);
}

void Observation::Note(const Result<void>& done) {
  Metrics& metrics = *worker_.services.metrics;
  if (call_.context.shares_flow) metrics.CountFlow(*call_.context.shares_flow);
  if (done) {
    const Tool* tool = call_.context.tool;
    metrics.observed
        .Add({{"tool", tool != nullptr ? tool->name : "unlisted"},
              {"verdict", std::string(NameOf(call_.verdict))}})
        .Increment();
  } else {
    CountDropped(metrics, FactsOf(done.error().code()).slug);
  }
  record_.verdict = call_.verdict == ObserveVerdict::kNone ? "" : NameOf(call_.verdict);
  if (call_.verdict == ObserveVerdict::kWouldRefuse) {
    record_.reason = call_.reason;
    metrics.CountRefusalToCome("write", record_.reason);
  }
  if (call_.event != 0) record_.event = PrintRowId(call_.event);
  view_->log.Append(record_, took_);
}

}  // namespace recourse
