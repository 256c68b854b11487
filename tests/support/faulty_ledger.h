// A ledger whose verbs fail when a test says so.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"

namespace recourse {

class FaultyLedger final : public Ledger {
 public:
  explicit FaultyLedger(std::unique_ptr<Ledger> ledger) : ledger_(std::move(ledger)) {}

  bool begin_fails = false;
  bool commit_fails = false;  // Begin decides, but DISPATCHING does not become durable
  bool record_fails = false;
  // What a failing verb says. By default a Begin that fails knows of no earlier attempt.
  Error failure{ErrorCode::kLedgerUnavailable, "the disk is gone", Delivery::kNotSent};

  Task<Result<Begun>> Begin(NewOperation operation, Executor& executor) override {
    if (begin_fails) co_return std::unexpected(failure);
    Result<Begun> begun = co_await ledger_->Begin(std::move(operation), executor);
    if (begun && begun->commit && commit_fails) {
      begun->commit = std::make_shared<PendingCommit>();
      begun->commit->Complete(std::unexpected(failure));
    }
    co_return begun;
  }
  Task<Result<Event>> Record(Transition transition, Executor& executor) override {
    if (record_fails) co_return std::unexpected(failure);
    co_return co_await ledger_->Record(std::move(transition), executor);
  }
  Task<Result<std::optional<Event>>> Join(std::uint64_t operation, MonoTime deadline,
                                          Executor& executor) override {
    return ledger_->Join(operation, deadline, executor);
  }
  void MarkAnswered(std::uint64_t operation) override { ledger_->MarkAnswered(operation); }
  Task<Result<std::vector<Event>>> Open(std::uint64_t after, std::size_t limit,
                                        Executor& executor) override {
    return ledger_->Open(after, limit, executor);
  }
  Result<EventPage> List(const EventFilter& filter) override { return ledger_->List(filter); }
  Result<std::optional<Event>> Find(std::uint64_t id) override { return ledger_->Find(id); }
  VerifyReport Verify() override { return ledger_->Verify(); }
  LedgerStats Stats() override { return ledger_->Stats(); }
  void OnCommit(std::function<void(double, std::size_t)> observer) override {
    ledger_->OnCommit(std::move(observer));
  }

 private:
  const std::unique_ptr<Ledger> ledger_;
};

}  // namespace recourse
