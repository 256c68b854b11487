// Looks after the flows of one process: their deadlines, and the undoing of those that broke.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "filters/flow_monitor.h"
#include "filters/ledger/ledger.h"
#include "filters/outcome_resolver.h"
#include "filters/saga/step_resender.h"
#include "filters/saga/undo_sender.h"
#include "proxy/base/clock.h"
#include "proxy/base/due_queue.h"
#include "proxy/base/random.h"
#include "proxy/base/work_loop.h"

namespace recourse {

// What an operator does to a flow. `reason` says who and why, for the log.
struct FlowAction {
  enum class Kind : std::uint8_t {
    kClose,      // an open or parked flow: what was done stays
    kCancel,     // an open flow: undo it
    kUndo,       // a committed flow: undo it all the same
    kRetry,      // a parked flow: try again what was stuck
    kDone,       // a step of a parked flow: it was undone by hand
    kNotNeeded,  // a step of a parked flow: its effect may stay
    kHappened,   // a step of unknown outcome had its effect
    kAbsent,     // a step of unknown outcome had none
  };
  Kind kind = Kind::kRetry;
  std::uint64_t number = 0;
  std::uint64_t operation = 0;  // of the step, where one is meant
  std::string reason;
  std::string external_ref{};        // of kHappened; may be empty
  std::optional<FlowState> found{};  // as the log tells it, where the flow may be over
};

// A flow came to a point that people want to hear of.
struct FlowNotification {
  FlowState state;
  std::uint64_t undone = 0;  // steps, in all
};

// Everything happens on the thread of Parts::executor; Watch, Order, Act and Stop may be called on
// any thread. Outlives every job that it posted.
class FlowWorker final : public FlowMonitor {
 public:
  struct Parts {
    Ledger& ledger;
    Upstream& upstream;  // of the runner's thread
    OutcomeResolver& settling;
    Executor& executor;
    Timer& timer;
    const Clock& clock;
    Random& random;
    // The policy of that version, or the one in force when it is lost. Thread-safe.
    std::function<std::shared_ptr<const Policy>(const std::string& version)> policy;
    ReadSecret read_secret;
    // Called on the runner's thread whenever a flow was undone or needs a human.
    std::function<void(const FlowNotification&)> tell;
    // Called on the runner's thread after each try to undo a step of that tool.
    std::function<void(const std::string& tool, UndoOutcome::Kind)> tried{};
    SpanSink* tracing = nullptr;  // null: traces are off
    KeepOwn keep{};
  };
  explicit FlowWorker(Parts parts);
  FlowWorker(const FlowWorker&) = delete;
  FlowWorker& operator=(const FlowWorker&) = delete;

  // Loads the flows that are not over, then works until Stop(). Returns when the last undo request
  // has ended. Call once, on the runner's thread.
  Task<void> Run();
  // Ends Run() within kFlowTick plus a backend's timeout.
  void Stop() { loop_.Stop(); }

  void Watch(const Event& step) override;
  Task<Result<FlowState>> Order(std::string caller, std::string flow, FlowMove move,
                                Executor& executor) override;
  // Blocking: call from an admin thread, never from an I/O thread. Fails with a line for people;
  // gives the flow as it is then, before it is worked on further.
  std::expected<FlowState, std::string> Act(const FlowAction& action);
  // The same on the runner's thread, without blocking it.
  Task<std::expected<FlowState, std::string>> ActNow(FlowAction action);
  // Settles an operation by a human's word, whatever its flow is at; that goes on as the outcome
  // says, also if it was parked over such a step. Gives the operation's last event. As Act.
  std::expected<Event, std::string> SettleBy(const HumanWord& word);
  // The same on the runner's thread.
  Task<std::expected<Event, std::string>> SettleByNow(HumanWord word);
  // The operation's last event, with its answer. As Act.
  std::expected<Event, std::string> LastOf(std::uint64_t operation);
  // Flows that are not over, with number > after, ascending, at most `limit`. As Act.
  std::expected<std::vector<FlowState>, std::string> List(std::uint64_t after, std::size_t limit);
  // Lets go whoever waits in Act or List, now and later: the runner's thread ends. Thread-safe.
  void Close() { loop_.Close(); }

 private:
  // A step of unknown outcome whose request is sent again to find out.
  struct Resend {
    MonoTime next;
    std::optional<std::string> stuck;  // why it is not sent again
  };
  // A step that its probe called absent, and that is looked at once more.
  struct Late {
    MonoTime next{};     // when
    MonoTime give_up{};  // an answer that tells nothing is asked for until then
    bool is_over = false;
  };
  // Requests to one backend.
  struct Lane {
    MonoTime next;                    // earliest time of the next one
    std::size_t sending = 0;          // under way
    std::set<std::uint64_t> waiting;  // flows that want to send once one of those has ended
  };
  struct Entry {
    std::string id, caller;
    std::uint64_t work = 0;                   // who works on it; 0: nobody
    std::set<std::uint64_t> by_human;         // stuck steps that a human lets be tried once more
    MonoTime settle_until{};                  // set while it is breaking
    std::vector<std::uint64_t> passed;        // stuck steps that the policy passes over
    std::optional<MonoTime> slot{};           // when its next undo request may go
    std::optional<MonoTime> unread_since{};   // the event that was looked for last cannot be read
    std::map<std::uint64_t, Resend> resends;  // by step
    std::map<std::uint64_t, Late> late;       // by step
  };

  // What the action means to its step; true: the flow has moved with it.
  Task<std::expected<bool, std::string>> RecordStep(FlowAction action);
  Task<std::expected<Event, std::string>> ReadNow(std::uint64_t operation);
  // Looks at the flow of that name, which may have moved.
  void Follow(std::string caller, std::string flow);
  Task<void> Load();
  // The flow as its policy breaks it over steps that became unknown with the last process.
  Task<FlowState> BrokenByCrash(FlowState state);
  void Track(const FlowState& state, Millis grace = Millis(0));  // `grace`: at least left to it
  void Forget(std::uint64_t number);
  Entry* Find(std::uint64_t number);  // nullptr: an operator has ended it meanwhile
  void Tick();
  void TickSoon();
  std::optional<MonoTime> NextTick() const;
  Task<void> Work(std::uint64_t number, std::uint64_t work);
  bool IsMine(std::uint64_t number, std::uint64_t work);  // nobody has begun it anew meanwhile
  // One thing at a time; nullopt: the flow is over, parked, or has to wait.
  Task<std::optional<FlowState>> Advance(FlowState state);
  Task<std::optional<FlowState>> AtDeadline(FlowState state);
  // What a look at the open steps of a breaking flow showed.
  struct OpenSteps {
    bool is_running = false;
    MonoTime until;            // something may find out until then
    MonoTime next;             // when to look again
    std::string unknown;       // which step, and why nobody knows
    std::uint64_t unread = 0;  // a step whose events cannot be read; 0: none
  };
  Task<std::optional<FlowState>> Settle(FlowState state);
  Task<void> SettleStep(std::uint64_t number, std::uint64_t operation, OpenSteps& open);
  Task<void> ResendStep(std::uint64_t number, Event unknown, OpenSteps& open);
  Task<std::optional<FlowState>> UndoNext(FlowState state);
  // Once nothing is left to be undone: a step may have taken effect after its absence was proved.
  Task<std::optional<FlowState>> LookBack(FlowState state);
  bool NoteLook(std::uint64_t number, std::uint64_t operation, SecondLook seen);
  Task<std::optional<FlowState>> TakeLate(FlowState state, Event step, SecondLook seen);
  // How long after its proof a step is looked at again; nullopt: nothing says how.
  std::optional<Millis> LooksAgainAfter(const Event& step);
  Task<std::optional<FlowState>> Park(const FlowState& state, std::string reason);
  Task<std::optional<FlowState>> Move(FlowMove move);
  Task<std::optional<FlowState>> Get(std::uint64_t number);
  Task<std::optional<Event>> Latest(std::uint64_t operation);
  // The same for a step that is worked on; remembers since when it cannot be read.
  Task<std::optional<Event>> Look(std::uint64_t number, std::uint64_t operation);
  bool IsLostToReading(std::uint64_t number);
  static std::string UnreadReason(std::uint64_t operation);
  Task<std::optional<FlowState>> PassOver(FlowState state, std::uint64_t operation,
                                          const std::string& story);
  Task<UndoOutcome> SendUndo(std::uint64_t number, const FlowStep& step, const Event& event,
                             std::shared_ptr<const Policy> policy);
  // Whether a request may go to that backend now: its rate, and its share of what is under way. If
  // not, the flow is due when it may. Each true is followed by Leave.
  bool Enter(std::uint64_t number, const std::string& backend, const Policy& policy);
  void Leave(const std::string& backend);
  Task<std::expected<std::vector<FlowState>, std::string>> ListNow(std::uint64_t after,
                                                                   std::size_t limit);
  void Tell(const FlowState& state);

  const Parts parts_;
  WorkLoop loop_;
  UndoSender sender_;
  StepResender resender_;

  // Owned by the runner's thread.
  std::map<std::uint64_t, Entry> entries_;
  DueQueue<std::uint64_t> due_;        // its keys
  std::map<std::string, Lane> lanes_;  // by backend
  std::uint64_t works_ = 0;
  bool is_tick_posted_ = false;
};

}  // namespace recourse
