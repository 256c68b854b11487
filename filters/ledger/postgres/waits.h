// What waits for the lane beside its verbs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <future>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "filters/ledger/engine/join_table.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/model/operator_action.h"
#include "proxy/base/executor.h"

namespace recourse {

inline Error PgAway() {
  return Error(ErrorCode::kLedgerUnavailable, "the ledger's database does not answer",
               Delivery::kNotSent);
}

struct PgPage {
  std::uint64_t after = 0;
  std::size_t limit = 0;
  bool is_own = false;                // only what is this process's to see to
  std::optional<Digest> flow_name{};  // only that one
};
template <class Given>
struct PgPageWait {
  PgPage page;
  Executor* executor = nullptr;
  Result<std::vector<Given>> result{};
  Promise<bool> done{};
};
using PgEventsWait = PgPageWait<Event>;
using PgClaimsWait = PgPageWait<PendingApproval>;
using PgFlowsWait = PgPageWait<FlowState>;
using PgListWait = std::variant<PgEventsWait*, PgClaimsWait*, PgFlowsWait*>;

// Of the queue as well as of the waiter, who may have left.
struct PgNoteWait {
  explicit PgNoteWait(std::variant<PolicyChange, OperatorOrder> what) : note(std::move(what)) {}
  const std::variant<PolicyChange, OperatorOrder> note;
  std::promise<Result<void>> promise{};
};

struct PgMark {
  AttemptId attempt;
  enum class What : std::uint8_t {
    kRead = 1,  // its client has had the answer
    kUnread,    // that was a mistake
    kLeft,      // its client has left
    kJoined,    // a client of this process waits for it from now on
  };
  What what = What::kRead;
};

// They are told once what they say is told by everything else, too.
class PgNotes {
 public:
  void Add(std::shared_ptr<PgNoteWait> note) { waiting_.push_back(std::move(note)); }
  // From now on they go out; until End() nothing more does.
  const std::vector<std::shared_ptr<PgNoteWait>>& Send() {
    sent_ = waiting_.size();
    return waiting_;
  }
  bool empty() const { return waiting_.empty(); }
  // Of what goes out.
  void End(const Result<void>& result) {
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::exchange(sent_, 0));
    for (auto note = waiting_.begin(); note != end; ++note) ended_.emplace_back(*note, result);
    waiting_.erase(waiting_.begin(), end);
  }
  void Tell() {
    for (auto& [note, result] : ended_) note->promise.set_value(result);
    ended_.clear();
  }

 private:
  std::vector<std::shared_ptr<PgNoteWait>> waiting_;
  std::size_t sent_ = 0;  // the first of them
  std::vector<std::pair<std::shared_ptr<PgNoteWait>, Result<void>>> ended_;
};

// Results on their way back to those who wait: one Post per executor, as it wakes a thread.
class PgJobs {
 public:
  void Tell(Executor* executor, Job job) {
    if (executor == nullptr) return;  // nobody waits
    const auto found = std::ranges::find(jobs_, executor, &Of::first);
    auto& jobs = found != jobs_.end() ? found->second : jobs_.emplace_back(executor, 0).second;
    jobs.push_back(std::move(job));
  }
  void TellAway(JoinWait* wait) {
    wait->result = std::unexpected(PgAway());
    Tell(wait->executor, [wait] { wait->promise.Set(std::move(wait->result)); });
  }
  void TellAway(const PgListWait& list) {
    const auto tell = [this](auto* wait) {
      wait->result = std::unexpected(PgAway());
      Tell(wait->executor, [wait] { wait->done.Set(true); });
    };
    std::visit(tell, list);
  }
  void Post() {
    for (auto& [executor, jobs] : jobs_) executor->Post(std::move(jobs));
    jobs_.clear();
  }

 private:
  using Of = std::pair<Executor*, std::vector<Job>>;
  std::vector<Of> jobs_;
};

}  // namespace recourse
