// Sends the requests that ask backends about operations: settle requests, and those about tasks of
// servers.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "filters/credentials/credentials.h"
#include "filters/ledger/ledger.h"
#include "filters/message.h"
#include "filters/settle/probe.h"
#include "filters/tracing.h"
#include "filters/upstream.h"
#include "proxy/base/clock.h"
#include "proxy/base/task.h"

namespace recourse {

// Whom the policy that an operation began under asks about it. Both live as long as that policy.
struct ProbeTarget {
  const Tool* tool;
  const Backend* backend;
};
// nullopt: the policy is lost, or there is nobody.
std::optional<ProbeTarget> ProbeTargetOf(const Event& event,
                                         const std::shared_ptr<const Policy>& policy);

// Belongs to the thread of its upstream.
class ProbeSender {
 public:
  struct Parts {
    Upstream& upstream;
    const Clock& clock;
    SpanSink* tracing = nullptr;  // null: traces are off
    // For the credentials that the undo of a tool has; unset: its tasks are asked about without.
    ReadSecret read_secret{};
    KeepOwn keep{};
  };
  explicit ProbeSender(Parts parts) : parts_(std::move(parts)) {}

  // Sends its settle request, of a search as often as that has pages. `number` counts the probes.
  Task<ProbeReading> AskAbout(Event event, std::shared_ptr<const Policy> policy, ProbeTarget target,
                              int number);
  // True where the answer states that nothing is left of it.
  Task<bool> SaysGone(Event undone, std::shared_ptr<const Policy> policy, ProbeTarget target);
  // What the server says of the operation's task, with the result where that is told apart and can
  // be had.
  Task<TaskReport> AskAboutTask(Event event, std::shared_ptr<const Policy> policy,
                                ProbeTarget target);

  // The answer to what asks whether an operation that was taken on is done.
  Task<Result<Answer>> AskWhetherDone(Event event, std::shared_ptr<const Policy> policy,
                                      ProbeTarget target, int number);

 private:
  Task<TaskReport> AskAs(std::string_view method, RenderedRequest asked, const Event& event,
                         std::shared_ptr<const Policy> policy, ProbeTarget target);
  Task<Result<Answer>> Ask(ProbeTarget target, HttpRequest request, std::size_t bytes_max,
                           OwnRequest told);

  const Parts parts_;
};

}  // namespace recourse
