#include "proxy/process/flow_service.h"

#include <string>
#include <utility>

#include "proxy/base/post_job.h"
#include "proxy/config/files.h"
#include "proxy/exchange/body_reservation.h"

namespace recourse {
namespace {

const char* NameOf(UndoOutcome::Kind kind) {
  switch (kind) {
    case UndoOutcome::Kind::kDone:
      return "done";
    case UndoOutcome::Kind::kNotNeeded:
      return "not_needed";
    case UndoOutcome::Kind::kAgain:
      return "again";
    case UndoOutcome::Kind::kStuck:
      return "stuck";
  }
  return "";
}

std::function<bool()> IsObserving(const PolicyVersions& versions) {
  return [&versions] { return versions.Current()->mode == Mode::kObserve; };
}

}  // namespace

FlowService::FlowService(const Parts& parts)
    : metrics_(parts.metrics),
      executor_(parts.worker.thread),
      webhook_(
          {.ledger = parts.ledger,
           .upstream = parts.worker.upstream,
           .executor = parts.worker.thread,
           .timer = parts.worker.thread,
           .clock = parts.clock,
           .random = parts.random,
           .policy = [&versions = parts.versions] { return versions.Current(); },
           .read_secret = ReadSecretFile,
           .count =
               [this](bool is_taken) {
                 metrics_.webhooks.Add({{"result", is_taken ? "taken" : "failed"}}).Increment();
               }}),
      runner_(
          {.ledger = parts.ledger,
           .upstream = parts.worker.upstream,
           .settling = parts.settling,
           .executor = parts.worker.thread,
           .timer = parts.worker.thread,
           .clock = parts.clock,
           .random = parts.random,
           .policy = [&versions = parts.versions](
                         const std::string& version) { return versions.Of(version); },
           .read_secret = ReadSecretFile,
           .tell = [this](const FlowNotification& news) { Tell(news); },
           .tried =
               [this](const std::string& tool, UndoOutcome::Kind kind) {
                 metrics_.undos.Add({{"tool", tool}, {"result", NameOf(kind)}}).Increment();
               },
           .tracing = parts.tracing,
           .keep = KeepOwnWithin(parts.worker.services.budget),
           .is_awaited = [&versions = parts.versions](
                             const std::string& version) { return versions.IsAwaited(version); }}),
      api_({.ledger = parts.ledger,
            .flows = runner_.operators(),
            .clock = parts.clock,
            .policy = [&versions = parts.versions](
                          const std::string& version) { return versions.Of(version); },
            .is_observing = IsObserving(parts.versions)}),
      operations_({.ledger = parts.ledger,
                   .flows = runner_.operators(),
                   .is_observing = IsObserving(parts.versions)}) {}

void FlowService::Start() {
  std::vector<Job> start;
  undoes_ = true;
  start.emplace_back([this] { Spawn(runner_.Run(), [this] { undoes_ = false; }); });
  start.emplace_back([this] { Spawn(webhook_.Load(), [] {}); });
  start.emplace_back([this] { Spawn(webhook_.Run(), [] {}); });
  start.emplace_back([this] { Spawn(webhook_.WatchUnknown(), [] {}); });
  executor_.Post(std::move(start));
}

void FlowService::LoadMore() {
  runner_.LoadMore();
  PostJob(executor_, [this] { Spawn(webhook_.Load(), [] {}); });
}

void FlowService::Stop() {
  runner_.Stop();
  webhook_.Stop();
}

void FlowService::Tell(const FlowNotification& news) {
  const char* const result = news.state.phase == FlowPhase::kUndone ? "undone"
                             : IsStopped(news.state)                ? "stopped"
                                                                    : "needs_human";
  metrics_.flows.Add({{"result", result}}).Increment();
  webhook_.Tell(news);
}

}  // namespace recourse
