// Observe mode: what is seen of one call, a read or a write, for `recourse policy suggest`. Beside
// the stream, within bounds; nothing here delays or changes an exchange.
#pragma once

#include <string>

#include "proxy/exchange/services.h"
#include "proxy/net/http1/message_head.h"
#include "proxy/net/message/body_decoder.h"
#include "proxy/traffic/seen_call.h"

namespace recourse {

// One I/O thread.
class TrafficTap {
 public:
  // What its bodies hold is a part of what `payer` may have (ServedRequest::Payer).
  TrafficTap(Services& services, const std::string& payer)
      : services_(services), hold_(services.budget, CallBudget::Of::kObserved, payer) {}

  // Of the request, before the first Take.
  SeenCall& call() { return call_; }
  void MeetHead(const Head& head);

  // The exchange, in this order; every piece of both bodies once.
  void TakeRequest(const BodyDecoder::Piece& piece);
  void TakeAnswerHead(const Head& head);
  void TakeAnswer(const BodyDecoder::Piece& piece);
  void AnswerDelivered() { call_.is_delivered = true; }
  void Ended();

 private:
  bool Take(HeldFor what, std::string_view data, std::string& to);

  Services& services_;
  CallBudget::Hold hold_;
  SeenCall call_;
  bool keeps_body_ = true, keeps_answer_ = false;
};

}  // namespace recourse
