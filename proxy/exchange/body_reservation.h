// What one request takes of the process while its body is here: memory, and a place among the
// writes at work.
#pragma once

#include <cstddef>
#include <string>

#include "filters/call_keeper.h"
#include "filters/ledger/model/waiting_clients.h"
#include "proxy/exchange/services.h"

namespace recourse {

// Runs what is done with a large body on another thread, where payers (ServedRequest::Payer) take
// turns. False: too many wait, and it was not run.
Task<bool> JudgeApart(Services& services, std::string payer, Job job, Executor& executor);

// Belongs to one request, whose client `link` leads to.
class BodyReservation final : public CallKeeper {
 public:
  BodyReservation(Services& services, const std::string& payer, const ClientLink& link)
      : services_(services),
        payer_(payer),
        link_(link),
        hold_(services.budget, CallBudget::Of::kServed, payer) {}
  ~BodyReservation() override { EndWrite(); }

  bool Hold(HeldFor what, std::size_t bytes) override { return hold_.Set(what, bytes); }
  void Becomes(State state) override {
    if (!is_write_) return;
    const bool is_at_work = state == State::kAtWork;
    if (is_at_work != is_at_work_) Count(is_at_work);
  }
  Task<bool> RunApart(Job job, Executor& executor) override {
    return JudgeApart(services_, payer_, std::move(job), executor);
  }
  bool HasLeft() override { return link_.HasLeft(); }
  bool MayHaveLeft() override { return link_.MayHaveLeft(); }

  // Lets go of what nobody needs while the client takes its time over the answer.
  void LetGoOfRequest(RequestContext& context);
  // Holds the answer until the client has it. One of a backend has its room already; in place of a
  // stored one that does not fit the client is told to come back.
  WriteAnswer Fit(WriteAnswer answer);

  // Its body is here whole. False: as many writes are at work as may be.
  bool BeginWrite() {
    if (services_.write_flows >= services_.bounds.writes_max) return false;
    is_write_ = true;
    Count(true);
    return true;
  }
  // It is over, or is no write: only its bytes are held from now on.
  void EndWrite() {
    if (is_at_work_) Count(false);
    is_write_ = false;
  }

 private:
  void Count(bool is_at_work) {
    is_at_work_ = is_at_work;
    if (is_at_work) {
      ++services_.write_flows;
      services_.metrics->write_flows.Increment();
    } else {
      --services_.write_flows;
      services_.metrics->write_flows.Decrement();
    }
  }

  Services& services_;
  const std::string payer_;
  const ClientLink& link_;
  CallBudget::Hold hold_;
  bool is_write_ = false;
  bool is_at_work_ = false;
};

// For what Recourse sends by itself. `budget` outlives it.
KeepOwn KeepOwnWithin(CallBudget& budget);

}  // namespace recourse
