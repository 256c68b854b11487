// What a rule has to know before it decides a verb, and what a store has found of that: values
// only. Whatever every store must do alike is a rule; how something is found is the store's.
#pragma once

#include <cstdint>
#include <expected>
#include <list>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/flow.h"
#include "filters/ledger/model/waiting_clients.h"
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rules/key_entry.h"
#include "policy/model/ledger_rules.h"
#include "proxy/base/clock.h"
#include "proxy/base/error.h"

namespace recourse {

// An operation, or what is left of it, under the key that finds it. The wall time of its state is
// corrected by what is known of jumps of the clock.
struct FoundOperation {
  Digest key{};
  KeyEntry entry;
  bool may_hold_more = true;  // than its request in its extension: an approval, a state
};

// The last event of an operation whole, and how long its approval still stands by the store's
// clocks; without an approval there is no end to that.
struct ApprovalState {
  FoundOperation found;
  Event event;
  Millis left{};
};

// What can be asked for. Each says what its answer is.
struct OperationOf {
  using Fact =
      std::optional<FoundOperation>;  // nullopt: there is none, or a tombstone is left of it
  std::uint64_t operation = 0;
  friend bool operator==(const OperationOf&, const OperationOf&) = default;
};
struct ApprovalOf {
  using Fact = std::optional<ApprovalState>;  // nullopt: there is no such operation
  std::uint64_t operation = 0;
  friend bool operator==(const ApprovalOf&, const ApprovalOf&) = default;
};
// What waits for a human in a flow; leaves out what cannot be read.
struct ApprovalsIn {
  using Fact = std::vector<ApprovalState>;
  Digest flow{};  // FlowKeyOf
  friend bool operator==(const ApprovalsIn&, const ApprovalsIn&) = default;
};
struct FlowNumbered {
  using Fact = std::optional<FlowState>;  // nullopt: none that is not over
  std::uint64_t number = 0;
  friend bool operator==(const FlowNumbered&, const FlowNumbered&) = default;
};
struct FlowNamed {
  struct Fact {
    std::optional<FlowState> flow{};  // that is not over
    std::uint64_t fenced_by = 0;      // number of the flow that fences the name; 0: none
  };
  Digest key{};  // FlowKeyOf
  friend bool operator==(const FlowNamed&, const FlowNamed&) = default;
};

// Without its answer; its request with kOnlyRequest.
struct EventAt {
  using Fact = Event;
  std::uint64_t row = 0;
  AnswerPart part = AnswerPart::kOnlyRequest;
  friend bool operator==(const EventAt&, const EventAt&) = default;
};
struct FrontOf {
  using Fact = EventFront;
  std::uint64_t row = 0;
  friend bool operator==(const FrontOf&, const FrontOf&) = default;
};
// What the index has under an intent, or under a mark (standing.h).
struct IntentOf {
  using Fact = std::optional<std::uint64_t>;
  Digest intent{};
  friend bool operator==(const IntentOf&, const IntentOf&) = default;
};
// The row under a mark, if that is behind `since`.
struct MarkSince {
  using Fact = std::optional<std::uint64_t>;
  Digest mark{};
  std::uint64_t since = 0;
  friend bool operator==(const MarkSince&, const MarkSince&) = default;
};
// Whether so much more fits beside all that is promised to fit.
struct RoomFor {
  using Fact = bool;
  std::size_t bytes = 0;
  friend bool operator==(const RoomFor&, const RoomFor&) = default;
};

// The entry of exactly this key.
struct KeyAt {
  using Fact = std::optional<FoundOperation>;
  Digest key{};
  friend bool operator==(const KeyAt&, const KeyAt&) = default;
};
// The newest generation of a key; nullopt: nothing has it.
struct GenerationOf {
  using Fact = std::optional<std::uint32_t>;
  Digest key{};
  friend bool operator==(const GenerationOf&, const GenerationOf&) = default;
};
// Whole, with its answer; null: the row is not durable yet.
struct AnswerAt {
  using Fact = std::unique_ptr<Event>;
  std::uint64_t row = 0;
  friend bool operator==(const AnswerAt&, const AnswerAt&) = default;
};
// Whether another client than this one waits for the operation.
struct OthersWait {
  using Fact = bool;
  const ClientWait* wait = nullptr;
  std::uint64_t operation = 0;
  friend bool operator==(const OthersWait&, const OthersWait&) = default;
};
// What runs, or has an outcome that nobody knows, and may leave that mark: but for what became
// unknown before the row `since`.
struct OpenWritesAt {
  struct Open {
    std::uint64_t operation = 0, last_event = 0;
  };
  using Fact = std::vector<Open>;
  Digest mark{};
  std::uint64_t since = 0;
  friend bool operator==(const OpenWritesAt&, const OpenWritesAt&) = default;
};
// Milliseconds since something that was written then, in that row or in one before it.
struct AgeOf {
  using Fact = std::int64_t;
  std::uint64_t row = 0;
  std::int64_t written_ms = 0;
  friend bool operator==(const AgeOf&, const AgeOf&) = default;
};
// Whether the backend may have forgotten the operation's key, which lives so long.
struct KeyIsOver {
  using Fact = bool;
  std::uint64_t operation = 0;
  Millis lives{};
  friend bool operator==(const KeyIsOver&, const KeyIsOver&) = default;
};
// The fence of a flow's name, once flows that are idle for long are closed.
struct FenceAt {
  struct Fact {
    std::uint64_t fenced_by = 0;
    bool is_there = false;
    bool is_too_long = false;  // it has a deadline, and as many steps as a flow may have
    bool is_full = false;      // no further flow can begin
  };
  Digest flow{};  // FlowKeyOf
  friend bool operator==(const FenceAt&, const FenceAt&) = default;
};
// How long one more try of what had no effect has to wait; nullopt: it may go. Counts it.
struct TryOf {
  using Fact = std::optional<Millis>;
  Digest key{};
  Principal principal = kNoPrincipal;
  friend bool operator==(const TryOf&, const TryOf&) = default;
};
// How often the answered operation was replayed since the process began. Counts this one.
struct ReplaysOf {
  using Fact = int;
  std::uint64_t operation = 0;
  friend bool operator==(const ReplaysOf&, const ReplaysOf&) = default;
};
// What stands in the way of one more attempt: load, quotas, room. One verb asks once.
struct AdmissionOf {
  using Fact = std::optional<Error>;
  std::string caller;
  Quota quota;
  bool is_new = false;  // it begins an operation
  bool is_observed = false;
  bool is_undo = false;
  bool asks = false;            // it is to wait for a human
  bool can_be_asked = false;    // its request can be kept for that
  std::size_t bytes_besides{};  // that its rows take beside what every operation is promised
  friend bool operator==(const AdmissionOf& one, const AdmissionOf& other) {
    return one.is_new == other.is_new;
  }
};

using Subject =
    std::variant<OperationOf, ApprovalOf, ApprovalsIn, FlowNumbered, FlowNamed, EventAt, FrontOf,
                 IntentOf, MarkSince, RoomFor, KeyAt, GenerationOf, AnswerAt, OthersWait,
                 OpenWritesAt, AgeOf, KeyIsOver, FenceAt, TryOf, ReplaysOf, AdmissionOf>;
// Why a rule gives no plan: it has to know more, as Known::needs says, or the verb fails.
struct Need {};
using Stop = std::variant<Need, Error>;
template <class T>
using Judged = std::expected<T, Stop>;

inline std::unexpected<Stop> Fails(const Error& error) { return std::unexpected(Stop(error)); }

// Of two that were asked at once: the reason of the first one that fails, or that more is needed.
template <class A, class B>
std::unexpected<Stop> StopOf(const Judged<A>& one, const Judged<B>& other) {
  const bool fails = !one && std::holds_alternative<Error>(one.error());
  return std::unexpected(fails || other ? one.error() : other.error());
}

class Known;

// Has at hand what a rule asks for.
class FactFinder {
 public:
  virtual void Find(const Subject& subject, Known& known) = 0;  // and puts it there

 protected:
  ~FactFinder() = default;
};

// Grows while one verb is judged: with a finder at once, else from round to round.
class Known {
 public:
  explicit Known(std::pmr::memory_resource* room = std::pmr::get_default_resource())
      : facts_(std::allocator_arg, std::pmr::polymorphic_allocator<>(room)) {}

  FactFinder* finder = nullptr;
  std::uint64_t first_row = 1;    // that is kept
  std::uint64_t durable_row = 0;  // the last one
  std::uint64_t next_row = 0;     // the first row that the plan writes
  std::int64_t wall_ms = 0;
  std::int64_t lived_ms = 0;  // row_ages.h
  bool is_latched = false;
  bool is_restored = false;      // from a backup, and not accepted yet
  bool has_open_writes = false;  // that may leave marks

  // What was asked for in this round and is not known yet.
  const std::vector<Subject>& needs() const { return needs_; }
  void BeginRound() { needs_.clear(); }

  // Stops with the need of it, or with the reason why it cannot be read. What it points at is the
  // rule's to take once nothing is needed any more.
  template <class Asked>
  Judged<typename Asked::Fact*> Get(const Asked& subject) {
    auto* fact = Find(subject);
    if (fact == nullptr && Ask(subject)) fact = Find(subject);
    if (fact == nullptr) return std::unexpected(Stop(Need()));
    if (!*fact) return Fails(fact->error());
    return &**fact;
  }
  // Stops with all of them that are not known yet.
  template <class Asked>
  Judged<void> Require(const std::vector<Asked>& subjects) {
    bool has_all = true;
    for (const Asked& subject : subjects) {
      if (Find(subject) == nullptr && !Ask(subject)) has_all = false;
    }
    if (!has_all) return std::unexpected(Stop(Need()));
    return {};
  }
  template <class Asked>
  void Put(const Asked& subject, Result<typename Asked::Fact> fact) {
    std::get<Facts<Asked>>(facts_).emplace_back(subject, std::move(fact));
  }

 private:
  // A fact stays where it is: rules point at it while they ask for more.
  template <class Asked>
  using Facts = std::pmr::list<std::pair<Asked, Result<typename Asked::Fact>>>;

  template <class Asked>
  Result<typename Asked::Fact>* Find(const Asked& subject) {
    for (auto& [known, fact] : std::get<Facts<Asked>>(facts_)) {
      if (known == subject) return &fact;
    }
    return nullptr;
  }
  // False: it is needed, and not there yet.
  bool Ask(const Subject& subject) {
    if (finder == nullptr) {
      needs_.push_back(subject);
      return false;
    }
    finder->Find(subject, *this);
    return true;
  }

  template <class Variant>
  struct TupleOf;
  template <class... Asked>
  struct TupleOf<std::variant<Asked...>> {
    using Type = std::tuple<Facts<Asked>...>;
  };
  TupleOf<Subject>::Type facts_;
  std::vector<Subject> needs_;
};

inline Error LatchedError() {
  return Error(ErrorCode::kLedgerUnavailable, "a commit failed earlier; the ledger refuses writes",
               Delivery::kNotSent);
}

}  // namespace recourse
