// Makes durable what was found out about an operation of unknown outcome.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/outcome_resolver.h"
#include "policy/model/policy.h"
#include "proxy/base/crypto/sha256.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

// Belongs to the thread of its executor. Where a policy is asked for, it is the one that the
// operation began under; nullptr: that is lost.
class SettleRecorder {
 public:
  struct Parts {
    Ledger& ledger;
    Executor& executor;
    // Told of an outcome that breaks its flow; may be unset.
    std::function<void(const Event& settled)> breaks_flow{};
    std::string install_secret{};  // for the marks of effects
  };
  explicit SettleRecorder(Parts parts) : parts_(std::move(parts)), secret_(parts_.install_secret) {}

  // With what it means to the flow, as the policy says.
  Task<Result<Event>> Record(const Event& uncertain, const Policy* policy, Transition transition);
  // A human's word, on the operation's last event. What `effect` says of the flow goes before what
  // the policy says. Fails with a line for people.
  Task<std::expected<Event, std::string>> RecordWord(HumanWord word, Event last,
                                                     std::shared_ptr<const Policy> policy,
                                                     std::optional<Transition::FlowEffect> effect);
  // A step has had its effect, though its absence was proved.
  Task<Result<Event>> RecordLate(const Event& absent, const Policy* policy, Transition transition);

 private:
  // What was found to have had its effect leaves the marks of it.
  void NoteEffect(const Event& uncertain, const Policy* policy, Transition& transition) const;

  const Parts parts_;
  const HmacKey secret_;
};

}  // namespace recourse
