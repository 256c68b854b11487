// Tells somebody outside when a flow needs a human, when a call waits for approval, and when nobody
// has found out for long whether a write took effect: one signed POST for each, until it is taken
// or there is nothing left to say. Off the write path.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "filters/ledger/ledger.h"
#include "filters/saga/flow_parts.h"
#include "filters/upstream.h"
#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/random.h"
#include "proxy/base/work_loop.h"
#include "proxy/notify/notification_queue.h"
#include "proxy/notify/webhook_payload.h"

namespace recourse {

// Everything happens on the thread of Parts::executor. Holds numbers of flows and operations only,
// so its queue is bounded by limits::kFlowsMax, kPendingApprovalsMax and kOpenOperationsMax, and
// what it says is what the ledger holds then.
class Webhook {
 public:
  struct Parts {
    Ledger& ledger;
    Upstream& upstream;  // of the executor's thread
    Executor& executor;
    Timer& timer;
    const Clock& clock;
    Random& random;
    std::function<std::shared_ptr<const Policy>()> policy;  // in force
    ReadSecret read_secret;
    std::function<void(bool is_taken)> count;  // each try
  };
  // An outcome that is unknown for so long is news: probes have had their time.
  static constexpr Millis kUnknownFor{5 * 60'000};
  static constexpr int kLoadTriesMax = 60;  // some ten minutes
  explicit Webhook(Parts parts)
      : parts_(std::move(parts)),
        telling_(parts_.executor, parts_.timer, parts_.clock, kNewsLook),
        watching_(parts_.executor, parts_.timer, parts_.clock, kLook) {}

  // Tells of what Load() found and of each that Tell() names, as long as the process lives. What is
  // not taken is told again after a pause that grows (NotificationQueue). Call once, on the
  // executor's thread.
  Task<void> Run();
  // Looks for the flows that are parked and the calls that wait already. A ledger that cannot be
  // read is asked again, kLoadTriesMax times. Call at the start, and when another process's has
  // become this one's; on the executor's thread.
  Task<void> Load();
  // Looks for operations of unknown outcome and has Run() tell of each once, and after a restart
  // once more; a webhook that a reload adds is told of all that waits. Call once, on the executor's
  // thread.
  Task<void> WatchUnknown();
  void Tell(const FlowNotification& news);
  // A call that waits for approval.
  void Tell(const Event& claim);
  // The newest signed head of the ledger, as JSON; older ones are told no more. Any thread.
  void TellHead(std::string news);
  // Ends all three within kLook, and no further news is told. Any thread.
  void Stop();

 private:
  static constexpr Millis kLook{10'000};
  static constexpr Millis kNewsLook{500};  // while what failed waits

  enum class Told : std::uint8_t { kTaken, kNotTaken, kOver };  // kOver: nothing is left to say
  void Add(Notification news);
  // What is due, one at a time.
  void TellNext();
  std::optional<MonoTime> NextNews() const;
  Task<void> TellOne(Notification news, FlowRules::Webhook hook);
  void LookIfDue();
  static std::string_view NameOf(Notification::Of of);
  // From `after` on, which they move.
  Task<Result<void>> LoadParked(std::uint64_t& after);
  Task<Result<void>> LoadClaims(std::uint64_t& after);
  // `is_new`: the policy had no webhook before.
  Task<void> Look(bool is_new);
  Task<void> LookForUnknown();
  Task<Told> Deliver(Notification news, FlowRules::Webhook hook);
  // The body to send; empty: what it was about is over.
  Task<std::string> BodyAbout(Notification news, NewsForm form);
  Task<std::string> BodyAboutFlow(std::uint64_t number, NewsForm form);
  Task<Result<int>> Post(FlowRules::Webhook hook, std::string body);

  const Parts parts_;
  NotificationQueue waiting_;          // to be told of
  std::string head_;                   // kHead
  std::set<std::uint64_t> announced_;  // operations that are unknown still
  bool is_telling_ = false, is_looking_ = false;
  bool has_hook_ = true;  // the policy in force, as of the last look; Load() is called at the start
  MonoTime next_look_;    // of WatchUnknown()
  WorkLoop telling_;      // Run()
  WorkLoop watching_;     // WatchUnknown()
};

}  // namespace recourse
