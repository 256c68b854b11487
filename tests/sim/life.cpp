#include "tests/sim/life.h"

#include <utility>

#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/memory/memory_ledger.h"

namespace recourse {
namespace {

std::unexpected<Error> Gone() {
  return std::unexpected(
      Error(ErrorCode::kLedgerUnavailable, "the process is gone", Delivery::kUncertain));
}

}  // namespace

class MortalLedger final : public Ledger {
 public:
  MortalLedger(Pulse& pulse, SimDisk& disk, const Clock& clock) : pulse_(pulse) {
    auto engine = StartEngine(disk.Open(), clock);
    RC_CHECK(engine.has_value());
    ledger_ = std::make_unique<MemoryLedger>(std::move(*engine), clock);
    if (disk.scale().rule) ledger_->SetRule(*disk.scale().rule);
  }
  void Bury() { ledger_.reset(); }

  Task<Result<Begun>> Begin(NewOperation operation, Executor& executor) override {
    if (!pulse_.Beat()) co_return Gone();
    auto done = co_await ledger_->Begin(std::move(operation), executor);
    if (pulse_.Beat()) co_await pulse_.Pause();
    if (pulse_.is_dead()) co_return Gone();
    co_return done;
  }
  Task<Result<Event>> Record(Transition transition, Executor& executor) override {
    if (!pulse_.Beat()) co_return Gone();
    auto done = co_await ledger_->Record(std::move(transition), executor);
    if (pulse_.Beat()) co_await pulse_.Pause();
    if (pulse_.is_dead()) co_return Gone();
    co_return done;
  }
  Task<Result<std::optional<Event>>> Join(std::uint64_t operation, MonoTime deadline,
                                          Executor& executor) override {
    if (pulse_.is_dead()) co_return Gone();
    auto done = co_await ledger_->Join(operation, deadline, executor);
    if (!pulse_.is_dead()) co_await pulse_.Pause();
    if (pulse_.is_dead()) co_return Gone();
    co_return done;
  }
  Task<Result<Event>> Read(std::uint64_t operation, Executor& executor) override {
    if (pulse_.is_dead()) co_return Gone();
    auto done = co_await ledger_->Read(operation, executor);
    co_await pulse_.Pause();
    if (pulse_.is_dead()) co_return Gone();
    co_return done;
  }
  Task<Result<ApprovalOutcome>> Decide(ApprovalOrder order, Executor& executor) override {
    if (!pulse_.Beat()) co_return Gone();
    auto done = co_await ledger_->Decide(std::move(order), executor);
    if (pulse_.Beat()) co_await pulse_.Pause();
    if (pulse_.is_dead()) co_return Gone();
    co_return done;
  }
  Task<Result<std::vector<PendingApproval>>> Claims(std::uint64_t after, std::size_t limit,
                                                    Executor& executor) override {
    if (pulse_.is_dead()) co_return Gone();
    auto done = co_await ledger_->Claims(after, limit, executor);
    co_await pulse_.Pause();
    if (pulse_.is_dead()) co_return Gone();
    co_return done;
  }
  void MarkAnswered(AttemptId answered) override {
    if (pulse_.Beat()) ledger_->MarkAnswered(answered);
  }
  void MarkUnread(AttemptId answered) override {
    if (pulse_.Beat()) ledger_->MarkUnread(answered);
  }
  Task<Result<std::vector<Event>>> Open(std::uint64_t after, std::size_t limit,
                                        Executor& executor) override {
    if (pulse_.is_dead()) co_return Gone();
    co_return co_await ledger_->Open(after, limit, executor);
  }
  Task<Result<FlowState>> MoveFlow(FlowMove move, Executor& executor) override {
    if (!pulse_.Beat()) co_return Gone();
    auto done = co_await ledger_->MoveFlow(std::move(move), executor);
    if (pulse_.Beat()) co_await pulse_.Pause();
    if (pulse_.is_dead()) co_return Gone();
    co_return done;
  }
  Task<Result<std::optional<FlowState>>> FindOpenFlow(std::string caller, std::string flow,
                                                      Executor& executor) override {
    if (pulse_.is_dead()) co_return Gone();
    auto done = co_await ledger_->FindOpenFlow(std::move(caller), std::move(flow), executor);
    co_await pulse_.Pause();
    if (pulse_.is_dead()) co_return Gone();
    co_return done;
  }
  Task<Result<std::vector<FlowState>>> Flows(std::uint64_t after, std::size_t limit,
                                             Executor& executor) override {
    if (pulse_.is_dead()) co_return Gone();
    auto done = co_await ledger_->Flows(after, limit, executor);
    co_await pulse_.Pause();
    if (pulse_.is_dead()) co_return Gone();
    co_return done;
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
  LedgerStats Stats() override { return ledger_->Stats(); }
  void SetRule(const LedgerRule& rule) override { ledger_->SetRule(rule); }
  void OnCommit(std::function<void(double, std::size_t)> observer) override {
    ledger_->OnCommit(std::move(observer));
  }

 private:
  Pulse& pulse_;
  std::unique_ptr<MemoryLedger> ledger_;
};

// What a process that is gone still waits for concerns nobody.
class Life::Line final : public UpstreamConnection {
 public:
  Line(TestLoop& loop, Pulse& pulse, SimPeer& backend)
      : loop_(loop), pulse_(pulse), backend_(backend) {}
  Task<Result<void>> Connected() override {
    if (!pulse_.is_dead() && !backend_.RefusesConnection()) co_return Result<void>();
    co_return std::unexpected(Error(ErrorCode::kNotSent, "connection refused", Delivery::kNotSent));
  }
  void GiveBodyTo(BodySink* sink) override { RC_CHECK(sink == nullptr); }
  Task<Result<recourse::Answer>> Exchange(const HttpRequest& request, MonoTime deadline,
                                          std::size_t /*answer_bytes_max*/) override {
    if (!pulse_.Beat()) co_return Lost(ErrorCode::kBackendReset);
    const bool is_probe = request.method == "GET";
    const Step step = is_probe ? backend_.Probe(request) : backend_.Receive(request);
    if (!pulse_.Beat()) co_return Lost(ErrorCode::kBackendReset);
    const MonoTime answered = loop_.now() + step.delay;
    if (step.delay > Millis(0)) co_await loop_.timer().SleepUntil(std::min(answered, deadline));
    if (answered > deadline) co_return Lost(ErrorCode::kBackendTimeout);
    if (step.end == Step::End::kCut) co_return Lost(ErrorCode::kBackendReset);
    if (step.end == Step::End::kBadAnswer) co_return Lost(ErrorCode::kBackendProtocol);
    co_return step.answer;
  }

 private:
  static Result<recourse::Answer> Lost(ErrorCode code) {
    return std::unexpected(Error(code, {}, Delivery::kUncertain));
  }
  TestLoop& loop_;
  Pulse& pulse_;
  SimPeer& backend_;
};

class Life::Wire final : public Upstream {
 public:
  Wire(TestLoop& loop, Pulse& pulse, SimPeer& backend)
      : loop_(loop), pulse_(pulse), backend_(backend) {}
  std::unique_ptr<UpstreamConnection> Open(const Backend& /*backend*/) override {
    return std::make_unique<Line>(loop_, pulse_, backend_);
  }

 private:
  TestLoop& loop_;
  Pulse& pulse_;
  SimPeer& backend_;
};

Life::Life(TestLoop& loop, Dice& dice, SimPeer& backend, SimDisk& disk,
           std::shared_ptr<const Policy> policy)
    : loop_(loop),
      pulse_(loop, dice),
      policy_(std::move(policy)),
      random_(dice.Below(1'000'000)),
      ledger_(std::make_unique<MortalLedger>(pulse_, disk, loop.clock())),
      wire_(std::make_unique<Wire>(loop, pulse_, backend)),
      settle_worker_({*ledger_, *wire_, loop.executor(), loop.timer(), loop.clock(), random_,
                      [this](const std::string&) { return policy_; },
                      [this](const Event& settled) { flows_.Watch(settled); }}),
      flows_({*ledger_,
              *wire_,
              settle_worker_,
              loop.executor(),
              loop.timer(),
              loop.clock(),
              random_,
              [this](const std::string&) { return policy_; },
              [](const std::string& /*file*/) { return std::string("s3cret"); },
              {}}),
      approvals_({*ledger_,
                  loop.executor(),
                  loop.timer(),
                  loop.clock(),
                  [this](const Digest&) { return policy_; },
                  [](const std::string& /*file*/) { return std::string("s3cret"); },
                  [this](RequestContext& context) {
                    return Next(std::span(chain_).subspan(kIdempotency))(context);
                  },
                  {}}) {
  chain_.push_back(std::make_unique<TraceFilter>(random_));
  chain_.push_back(std::make_unique<SagaFilter>(flows_));
  chain_.push_back(std::make_unique<ApprovalFilter>());
  chain_.push_back(std::make_unique<IdempotencyFilter>(
      IdempotencyFilter::Parts{*ledger_,
                               settle_worker_,
                               flows_,
                               approvals_,
                               loop.clock(),
                               random_,
                               "secret of this install",
                               "secret of this ledger",
                               {*wire_, nullptr, loop.clock()}}));
  chain_.push_back(std::make_unique<RetryFilter>(loop.clock(), random_));
  chain_.push_back(std::make_unique<DispatchFilter>(*wire_, loop.clock()));
  loop_.Start(settle_worker_.Run());
  loop_.Start(flows_.Run());
  loop_.Start(approvals_.Run());
}

Life::~Life() = default;

Ledger& Life::ledger() { return *ledger_; }

void Life::Bury() {
  pulse_.Kill();
  flows_.Stop();
  approvals_.Stop();
  settle_worker_.Stop();
  ledger_->Bury();
}

void Life::Serve(const CallSpec& spec, std::shared_ptr<Told> told, bool is_delivered) {
  loop_.Start(Answer(ContextOf(spec, policy_, loop_), std::move(told), is_delivered));
}

Task<void> Life::Answer(std::unique_ptr<RequestContext> context, std::shared_ptr<Told> told,
                        bool is_delivered) {
  const Result<Outcome> outcome = co_await Next(chain_)(*context);
  if (pulse_.is_dead() || !outcome) co_return;
  TellAgent(*outcome, *context, *told);
  if (told->answers && is_delivered) ledger_->MarkAnswered(*told->answers);
}

Task<void> Life::Decide(ApprovalOrder order) {
  (void)co_await approvals_.DecideNow(std::move(order));
}

void Life::Obey(std::shared_ptr<const Policy> policy) {
  policy_ = std::move(policy);
  approvals_.PolicyChanged();
}

void Life::Act(const FlowAction& action) {
  loop_.Start([](FlowWorker& flows, FlowAction asked) -> Task<void> {
    (void)co_await flows.operators().ActNow(std::move(asked));
  }(flows_, action));
}

}  // namespace recourse
