// A ledger whose verbs fail when a test says so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"

namespace recourse {

class FaultyLedger final : public Ledger {
 public:
  explicit FaultyLedger(std::unique_ptr<Ledger> ledger) : ledger_(std::move(ledger)) {}

  bool begin_fails = false;
  bool commit_fails = false;           // Begin decides, but DISPATCHING does not become durable
  std::shared_ptr<SendPermit> permit;  // of whatever begins
  bool record_fails = false;
  bool join_fails = false;
  std::optional<Digest> other_key;         // of the call that has the numbers of all by now
  bool flows_fail = false;                 // they cannot be listed or found
  bool lists_fail = false;                 // nor can what is open, or waits for a human
  std::function<void()> before_move;       // before the next MoveFlow is asked for, once
  std::function<Task<void>()> after_move;  // before it returns, once
  std::optional<LedgerStats> stats{};      // told instead of its own
  // What a failing verb says. By default a Begin that fails knows of no earlier attempt.
  Error failure{ErrorCode::kLedgerUnavailable, "the disk is gone", Delivery::kNotSent};

  Task<Result<Begun>> Begin(NewOperation operation, Executor& executor) override {
    if (begin_fails) co_return std::unexpected(failure);
    Result<Begun> begun = co_await ledger_->Begin(std::move(operation), executor);
    if (begun && begun->commit && commit_fails) {
      begun->commit = std::make_shared<PendingCommit>();
      begun->commit->Complete(std::unexpected(failure));
    } else if (begun && begun->commit && permit) {
      begun->commit = std::make_shared<PendingCommit>();
      begun->commit->Complete({}, permit);
    }
    co_return begun;
  }
  Task<Result<Event>> Record(Transition transition, Executor& executor) override {
    if (record_fails) co_return std::unexpected(failure);
    co_return co_await ledger_->Record(std::move(transition), executor);
  }
  Task<Result<std::optional<Event>>> Join(std::uint64_t operation, MonoTime deadline,
                                          Executor& executor) override {
    if (join_fails) co_return std::unexpected(failure);
    auto joined = co_await ledger_->Join(operation, deadline, executor);
    if (other_key && joined && *joined) (*joined)->key = *other_key;
    co_return joined;
  }
  Task<Result<Event>> Read(std::uint64_t operation, Executor& executor) override {
    auto read = co_await ledger_->Read(operation, executor);
    if (other_key && read) read->key = *other_key;
    co_return read;
  }
  Task<Result<ApprovalOutcome>> Decide(ApprovalOrder order, Executor& executor) override {
    if (record_fails) co_return std::unexpected(failure);
    co_return co_await ledger_->Decide(std::move(order), executor);
  }
  Task<Result<std::vector<PendingApproval>>> Claims(std::uint64_t after, std::size_t limit,
                                                    Executor& executor) override {
    if (lists_fail) co_return std::unexpected(failure);
    co_return co_await ledger_->Claims(after, limit, executor);
  }
  void MarkAnswered(AttemptId answered) override { ledger_->MarkAnswered(answered); }
  void MarkUnread(AttemptId answered) override { ledger_->MarkUnread(answered); }
  Task<Result<std::vector<Event>>> Open(std::uint64_t after, std::size_t limit,
                                        Executor& executor) override {
    if (lists_fail) co_return std::unexpected(failure);
    co_return co_await ledger_->Open(after, limit, executor);
  }
  Task<Result<FlowState>> MoveFlow(FlowMove move, Executor& executor) override {
    if (record_fails) co_return std::unexpected(failure);
    if (const auto before = std::exchange(before_move, nullptr)) before();
    const auto after = std::exchange(after_move, nullptr);
    auto moved = co_await ledger_->MoveFlow(std::move(move), executor);
    if (after) co_await after();
    co_return moved;
  }
  Task<Result<std::optional<FlowState>>> FindOpenFlow(std::string caller, std::string flow,
                                                      Executor& executor) override {
    if (flows_fail) co_return std::unexpected(failure);
    co_return co_await ledger_->FindOpenFlow(std::move(caller), std::move(flow), executor);
  }
  Task<Result<std::vector<FlowState>>> Flows(std::uint64_t after, std::size_t limit,
                                             Executor& executor) override {
    if (flows_fail) co_return std::unexpected(failure);
    co_return co_await ledger_->Flows(after, limit, executor);
  }
  Result<std::optional<FlowState>> FindFlow(std::uint64_t number) override {
    return ledger_->FindFlow(number);
  }
  Result<std::vector<FlowState>> NewestFlows(std::size_t limit) override {
    return ledger_->NewestFlows(limit);
  }
  Result<void> RecordPolicy(const PolicyChange& change) override {
    return ledger_->RecordPolicy(change);
  }
  Result<EventPage> List(const EventFilter& filter) override { return ledger_->List(filter); }
  Result<std::optional<Event>> Find(std::uint64_t id) override { return ledger_->Find(id); }
  VerifyReport Verify() override { return ledger_->Verify(); }
  LedgerStats Stats() override { return stats ? *stats : ledger_->Stats(); }
  void SetRule(const LedgerRule& rule) override { ledger_->SetRule(rule); }
  void OnCommit(std::function<void(double, std::size_t)> observer) override {
    ledger_->OnCommit(std::move(observer));
  }

 private:
  const std::unique_ptr<Ledger> ledger_;
};

}  // namespace recourse
