// Observe mode on the wire: what the read lane sees of a write is copied beside the stream, within
// bounds, and handed to the Observer. Nothing here delays, changes or ends an exchange.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "filters/observe/observer.h"
#include "proxy/exchange/body_reservation.h"
#include "proxy/exchange/services.h"
#include "proxy/net/http1/message_head.h"
#include "proxy/net/message/body_decoder.h"

namespace recourse {

// What the client is told when a relayed request got no answer. Observe mode relays writes too
// (`sends_once`), and one that was sent, or whose body `broke_off`, may have acted.
HttpResponse FailureAnswer(const Error& error, bool sends_once, bool broke_off);

// One write of observe mode. Shared by its request and by the coroutine that writes it down; one
// I/O thread.
class Observation final : public std::enable_shared_from_this<Observation>, private CallKeeper {
 public:
  // nullptr when kObservedCallsMax are being written down already; counted as dropped. What it
  // holds is a part of what `payer` may have (ServedRequest::Payer).
  static std::shared_ptr<Observation> Start(Worker& worker, std::shared_ptr<PolicyView> view,
                                            const std::string& payer);
  // Use Start.
  Observation(Worker& worker, std::shared_ptr<PolicyView> view, const std::string& payer);
  ~Observation() override;
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  // To be filled before the first Take.
  RequestContext& context() { return call_.context; }
  // Enforce would have refused the call, for this reason.
  void Refuse(CallRefusal reason) {
    if (!call_.refusal) call_.refusal = std::move(reason);
  }
  const std::optional<CallRefusal>& refusal() const { return call_.refusal; }

  // The exchange, in this order; every piece of both bodies once.
  void TakeRequest(const BodyDecoder::Piece& piece);
  // The request's body; nullptr: it is not, or not wholly, here.
  const std::string* WholeRequest() const {
    return call_.is_whole ? &call_.context.request.body : nullptr;
  }
  // Runs `look`, of a large body on another thread. False: too many wait there, and the call would
  // have been refused.
  Task<bool> LookAtRequest(Job look);
  // The last byte of a whole request went to the backend.
  void RequestSent() { Write(); }
  void Failed(const Error& error) { call_.result = std::unexpected(error); }
  void TakeAnswerHead(const Head& head);
  void TakeAnswer(const BodyDecoder::Piece& piece);
  // The answer broke off, or the client did before all of it was read.
  void AnswerBroke(bool client_left);
  void AnswerDelivered() { call_.is_delivered = true; }
  // The exchange is over. The line of the access log is written with the verdict, soon.
  void Ended(const RequestRecord& record, std::chrono::nanoseconds took);

 private:
  bool Hold(HeldFor what, std::size_t bytes) override { return hold_.Set(what, bytes); }
  void Becomes(State) override {}
  Task<bool> RunApart(Job job, Executor& executor) override {
    return JudgeApart(worker_.services, payer_, std::move(job), executor);
  }
  bool HasLeft() override { return false; }
  bool MayHaveLeft() override { return false; }

  void Write();
  void Note(const Result<void>& done);
  static Task<void> Run(std::shared_ptr<Observation> self);

  Worker& worker_;
  const std::shared_ptr<PolicyView> view_;  // of the request; keeps its tool and backend
  const std::string payer_;
  ObservedCall call_;
  CallBudget::Hold hold_;
  bool is_writing_ = false;
  bool keeps_request_ = true;
  bool keeps_answer_ = false;
  RequestRecord record_;
  std::chrono::nanoseconds took_{};
};

}  // namespace recourse
