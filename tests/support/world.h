// The whole write path above the network: chain, memory ledger, settler, scripted backend.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/approval/approval_filter.h"
#include "filters/approval/approval_worker.h"
#include "filters/call/call_values.h"
#include "filters/call/codecs.h"
#include "filters/dispatch/dispatch_filter.h"
#include "filters/idempotency/idempotency_filter.h"
#include "filters/ledger/memory/make_memory_ledger.h"
#include "filters/retry/retry_filter.h"
#include "filters/saga/flow_worker.h"
#include "filters/saga/saga_filter.h"
#include "filters/settle/settle_worker.h"
#include "filters/trace/trace_filter.h"
#include "policy/language/loader.h"
#include "policy/model/route_table.h"
#include "tests/support/faulty_ledger.h"
#include "tests/support/scripted_upstream.h"
#include "tests/support/seeded_random.h"
#include "tests/support/test_loop.h"

namespace recourse {

inline constexpr const char* kTraceA = "0af7651916cd43dd8448eb211c80319c";
inline constexpr const char* kTraceB = "11111111111111111111111111111111";

inline std::string Traceparent(const std::string& trace_id) {
  return "00-" + trace_id + "-b7ad6b7169203331-01";
}

// One call of an agent; what a test does not set does not matter.
struct CallSpec {
  std::string method = "POST";
  std::string host = "orders.test";
  std::string target = "/orders";
  std::string body = R"({"item":"desk","amount":1})";
  std::string content_type = "application/json";
  std::string trace = kTraceA;  // empty: no traceparent
  Headers headers;
  std::string caller = "agent-1";
  bool guarded = true;
  InterimSink* interim = nullptr;
  CallKeeper* keeper = nullptr;
};

// What the agent was told.
struct Told {
  bool done = false;
  int status = 0;
  Headers headers;
  std::string body;
  std::optional<ErrorCode> error;
  std::optional<AttemptId> answers;
  bool replayed = false;
  int attempts = 0;

  std::string Field(std::string_view name) const {
    const std::string* value = FindHeader(headers, name);
    return value == nullptr ? std::string() : *value;
  }
};

inline std::shared_ptr<const Policy> PolicyOf(const std::string& yaml) {
  LoadedPolicy loaded = LoadPolicyText("test.yaml", yaml);
  for (const PolicyProblem& problem : loaded.problems) {
    if (problem.severity == PolicyProblem::Severity::kError) {
      ADD_FAILURE() << problem.ToString();
    }
  }
  RC_CHECK(loaded.ok());
  return loaded.policy;
}

// The call as the chain gets it.
inline std::unique_ptr<RequestContext> ContextOf(const CallSpec& spec,
                                                 std::shared_ptr<const Policy> policy,
                                                 TestLoop& loop) {
  auto context = std::make_unique<RequestContext>();
  context->policy = policy;
  const Backend* backend = policy->routes->FindBackend(spec.host, 80);
  RC_CHECK(backend != nullptr);
  const auto mark = std::min(spec.target.find('?'), spec.target.size());
  const std::string path = spec.target.substr(0, mark);
  context->backend = backend;
  if (backend->is_mcp()) {
    const auto body = ReadCallBody(*backend, {spec.method, path, spec.headers, spec.body});
    RC_CHECK(body.has_value());
    context->tool = policy->routes->FindCalledTool(*backend, body->call_name);
  } else {
    std::string scratch;
    const auto match = policy->routes->Match(*backend, spec.method, path, scratch);
    RC_CHECK(match.has_value());
    context->tool = match->tool;
    for (std::size_t i = 0; i < match->capture_count; ++i) {
      context->captures.emplace_back(match->captures[i].name, match->captures[i].value);
    }
  }
  context->guarded = spec.guarded;
  context->tool_name = context->tool == nullptr ? "unlisted." + backend->name : context->tool->name;
  context->caller = spec.caller;
  context->came_as_backend = true;
  context->path = path;
  if (mark < spec.target.size()) context->query = ParsePairs(spec.target.substr(mark + 1));
  context->request = {spec.method, backend->base_path + spec.target, spec.headers, spec.body};
  Headers& headers = context->request.headers;
  if (!spec.content_type.empty()) headers.emplace_back("Content-Type", spec.content_type);
  if (!spec.trace.empty()) headers.emplace_back("traceparent", Traceparent(spec.trace));
  context->executor = &loop.executor();
  context->timer = &loop.timer();
  context->interim = spec.interim;
  context->keeper = spec.keeper;
  return context;
}

inline void TellAgent(const Outcome& outcome, const RequestContext& context, Told& told) {
  const HttpResponse& response = outcome.local ? outcome.local->response : outcome.answer.response;
  told.status = response.status;
  told.headers = response.headers;
  told.body = response.body;
  if (outcome.local) told.error = outcome.local->error;
  told.answers = context.answers;
  told.replayed = context.replayed;
  told.attempts = context.attempts;
  told.done = true;
}

class RoomyKeeper : public CallKeeper {
 public:
  bool Hold(HeldFor, std::size_t) override { return true; }
  void Becomes(State) override {}
  Task<bool> RunApart(Job job, Executor& /*executor*/) override {
    job();
    co_return true;
  }
  bool HasLeft() override { return false; }
  bool MayHaveLeft() override { return false; }
};

class World {
 public:
  explicit World(const std::string& yaml) : World(PolicyOf(yaml)) {}
  explicit World(std::shared_ptr<const Policy> in_force)
      : upstream(loop),
        wire(upstream, loop.timer(), loop.clock(), random),
        policy(std::move(in_force)),
        ledger(MakeMemoryLedger(loop.clock())),
        settle_worker({ledger,
                       wire,
                       loop.executor(),
                       loop.timer(),
                       loop.clock(),
                       random,
                       [this](const std::string& version) { return PolicyOfVersion(version); },
                       [this](const Event& settled) { flows.Watch(settled); },
                       {},
                       nullptr,
                       {},
                       [this] { return KeepOne(); }}),
        flows({ledger,
               wire,
               settle_worker,
               loop.executor(),
               loop.timer(),
               loop.clock(),
               random,
               [this](const std::string& version) { return PolicyOfVersion(version); },
               [this](const std::string& file) { return read_secret(file); },
               [this](const FlowNotification& one) { news.push_back(one); },
               {},
               nullptr,
               [this] { return KeepOne(); }}),
        approvals({ledger, loop.executor(), loop.timer(), loop.clock(),
                   [this](const Digest&) { return policy; },
                   [this](const std::string& file) { return read_secret(file); },
                   [this](RequestContext& context) {
                     return Next(std::span(chain_).subspan(kIdempotency))(context);
                   },
                   [this](const Event& one) { approval_news.push_back(one); },
                   [this] { return KeepOne(); }}) {
    chain_.push_back(std::make_unique<TraceFilter>(random));
    chain_.push_back(std::make_unique<SagaFilter>(flows));
    chain_.push_back(std::make_unique<ApprovalFilter>());
    chain_.push_back(std::make_unique<IdempotencyFilter>(
        IdempotencyFilter::Parts{ledger,
                                 settle_worker,
                                 flows,
                                 approvals,
                                 loop.clock(),
                                 random,
                                 "secret of this install",
                                 "secret of this ledger",
                                 {wire, nullptr, loop.clock()}}));
    chain_.push_back(std::make_unique<RetryFilter>(loop.clock(), random));
    chain_.push_back(std::make_unique<DispatchFilter>(wire, loop.clock()));
  }
  ~World() {
    flows.Stop();
    approvals.Stop();
    settle_worker.Stop();
    loop.RunAll();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Starts a call; `told` is filled when it ends.
  std::shared_ptr<Told> Start(const CallSpec& spec) {
    auto told = std::make_shared<Told>();
    loop.Start(Serve(ContextOf(spec, policy, loop), told));
    loop.RunReady();
    return told;
  }
  // Makes a call and lets time pass until it is answered.
  Told Call(const CallSpec& spec) {
    const std::shared_ptr<Told> told = Start(spec);
    for (int i = 0; !told->done && i < kPumpsMax; ++i) loop.RunFor(Millis(100));
    EXPECT_TRUE(told->done) << "the call is stuck";
    return *told;
  }
  // The answer reached the client.
  void Deliver(const Told& told) {
    if (told.answers) ledger.MarkAnswered(*told.answers);
  }
  void StartSettler() { loop.Start(settle_worker.Run()); }
  void StartFlows() { loop.Start(flows.Run()); }
  void StartApprovals() { loop.Start(approvals.Run()); }
  std::vector<Event> Events() {
    auto page = ledger.List({.trace_id = {},
                             .tool = {},
                             .status = {},
                             .phase = {},
                             .operation = {},
                             .after = 0,
                             .limit = 1'000});
    RC_CHECK(page.has_value());
    return page->events;
  }
  std::vector<Phase> Phases() {
    std::vector<Phase> phases;
    for (const Event& event : Events()) phases.push_back(event.phase);
    return phases;
  }

  TestLoop loop;
  SeededRandom random;
  ScriptedUpstream upstream;
  CodecUpstream wire;  // over `upstream`, as in the process
  std::shared_ptr<const Policy> policy;
  std::vector<std::shared_ptr<const Policy>> older;  // that the settler still finds
  FaultyLedger ledger;
  bool has_room = true;                // for what is sent on nobody's call
  std::vector<FlowNotification> news;  // of flows that were undone or need a human
  SettleWorker settle_worker;
  FlowWorker flows;
  std::vector<Event> approval_news;
  ReadSecret read_secret = [](const std::string& /*file*/) { return std::string("s3cret"); };
  ApprovalWorker approvals;

 private:
  static constexpr int kPumpsMax = 36'000;
  static constexpr std::size_t kIdempotency = 3;  // its place in the chain

  std::unique_ptr<CallKeeper> KeepOne() const {
    return has_room ? std::make_unique<RoomyKeeper>() : nullptr;
  }
  std::shared_ptr<const Policy> PolicyOfVersion(const std::string& version) const {
    for (const auto& one : older) {
      if (one->version == version) return one;
    }
    return policy;
  }

  Task<void> Serve(std::unique_ptr<RequestContext> context, std::shared_ptr<Told> told) {
    const Result<Outcome> outcome = co_await Next(chain_)(*context);
    EXPECT_TRUE(outcome.has_value());
    TellAgent(*outcome, *context, *told);
  }

  FilterChain chain_;
};

}  // namespace recourse
