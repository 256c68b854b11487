// The ledger that could not be opened: observe mode goes on without one.
#include <utility>

#include "filters/ledger/ledger.h"

namespace recourse {
namespace {

std::unexpected<Error> NotOpened() {
  return std::unexpected(Error(ErrorCode::kLedgerUnavailable,
                               "the ledger could not be opened at the start, so nothing is "
                               "recorded; /ready and the log say why",
                               Delivery::kNotSent));
}

class UnavailableLedger final : public Ledger {
 public:
  explicit UnavailableLedger(std::string why) : why_(std::move(why)) {}

  Task<Result<Begun>> Begin(NewOperation /*operation*/, Executor& /*executor*/) override {
    co_return NotOpened();
  }
  Task<Result<Event>> Record(Transition /*transition*/, Executor& /*executor*/) override {
    co_return NotOpened();
  }
  Task<Result<std::optional<Event>>> Join(std::uint64_t /*operation*/, MonoTime /*deadline*/,
                                          Executor& /*executor*/) override {
    co_return NotOpened();
  }
  void MarkAnswered(AttemptId /*answered*/) override {}
  void MarkUnread(AttemptId /*answered*/) override {}
  Task<Result<std::vector<Event>>> Open(std::uint64_t /*after*/, std::size_t /*limit*/,
                                        Executor& /*executor*/) override {
    co_return NotOpened();
  }
  Task<Result<FlowState>> MoveFlow(FlowMove /*move*/, Executor& /*executor*/) override {
    co_return NotOpened();
  }
  Task<Result<std::optional<FlowState>>> FindOpenFlow(std::string /*caller*/, std::string /*flow*/,
                                                      Executor& /*executor*/) override {
    co_return NotOpened();
  }
  Task<Result<std::vector<FlowState>>> Flows(std::uint64_t /*after*/, std::size_t /*limit*/,
                                             Executor& /*executor*/) override {
    co_return NotOpened();
  }
  Task<Result<Event>> Read(std::uint64_t /*operation*/, Executor& /*executor*/) override {
    co_return NotOpened();
  }
  Task<Result<ApprovalOutcome>> Decide(ApprovalOrder /*order*/, Executor& /*executor*/) override {
    co_return NotOpened();
  }
  Task<Result<std::vector<PendingApproval>>> Claims(std::uint64_t /*after*/, std::size_t /*limit*/,
                                                    Executor& /*executor*/) override {
    co_return NotOpened();
  }
  Result<std::optional<FlowState>> FindFlow(std::uint64_t /*number*/) override {
    return NotOpened();
  }
  Result<std::vector<FlowState>> NewestFlows(std::size_t /*limit*/) override { return NotOpened(); }
  Result<void> RecordPolicy(const PolicyChange& /*change*/) override { return NotOpened(); }
  Result<EventPage> List(const EventFilter& /*filter*/) override { return NotOpened(); }
  Result<std::optional<Event>> Find(std::uint64_t /*id*/) override { return NotOpened(); }
  VerifyReport Verify() override {
    VerifyReport report;
    report.problem = why_;
    return report;
  }
  LedgerStats Stats() override {
    LedgerStats stats;
    stats.latched = true;
    stats.not_opened = why_;
    return stats;
  }
  void SetRule(const LedgerRule& /*rule*/) override {}
  std::expected<std::unique_ptr<LedgerCopy>, std::string> StartCopy() override {
    return std::unexpected(why_);
  }
  void OnCommit(std::function<void(double seconds, std::size_t rows)> /*observer*/) override {}

 private:
  const std::string why_;
};

}  // namespace

std::unique_ptr<Ledger> MakeUnopenedLedger(std::string why) {
  return std::make_unique<UnavailableLedger>(std::move(why));
}

}  // namespace recourse
