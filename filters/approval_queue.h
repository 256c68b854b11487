// How the chain tells whoever looks after what waits for humans. Implemented by filters/approval.
#pragma once

#include <optional>

#include "filters/ledger/model/event.h"

namespace recourse {

class ApprovalQueue {
 public:
  virtual ~ApprovalQueue() = default;
  // An operation began to wait, durably: its time runs, and somebody may want to hear of it.
  // Thread-safe, does not wait.
  virtual void Watch(const Event& claim) = 0;
  // The backend's answer to an approved call, for the first caller who comes for it: see
  // FirstAnswers. Thread-safe.
  virtual void KeepFirstAnswer(AttemptId of, HttpResponse answer) = 0;
  virtual std::optional<HttpResponse> TakeFirstAnswer(AttemptId of) = 0;
};

}  // namespace recourse
