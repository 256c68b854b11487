#include "filters/ledger/commit/verb_batch.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "proxy/base/limits.h"

namespace recourse::group_commit {

template <class Wait>
void VerbBatch::Answer(Wait* wait) {
  if constexpr (requires { wait->done; }) {
    AddJob(wait->executor, [wait] { wait->done.Set(true); });
  } else {
    AddJob(wait->executor, [wait] { wait->promise.Set(std::move(wait->result)); });
  }
}

void VerbBatch::Take(BeginWait* wait) {
  auto step = engine_.Begin(wait->operation);
  if (!step) {
    wait->result = std::unexpected(step.error());
    Answer(wait);
    return;
  }
  if (step->load_after_commit != 0) {
    wait->result = std::move(step->begun);
    late_begins_.push_back({wait, step->load_after_commit});
    return;
  }
  if (step->writes_event) {
    step->begun.commit = std::make_shared<PendingCommit>();
    durables_.push_back({wait->executor, step->begun.commit});
  }
  wait->result = std::move(step->begun);
  Answer(wait);
}

void VerbBatch::Take(RecordWait* wait) {
  wait->result = engine_.Record(wait->transition);
  if (wait->result) {
    records_.push_back(wait);
  } else {
    Answer(wait);
  }
}

void VerbBatch::Take(MoveWait* wait) {
  wait->result = engine_.MoveFlow(wait->move);
  if (wait->result) {
    moves_.push_back(wait);
  } else {
    Answer(wait);
  }
}

void VerbBatch::Take(DecideWait* wait) {
  wait->result = engine_.Decide(wait->order);
  if (wait->result) {
    decisions_.push_back(wait);
  } else {
    Answer(wait);
  }
}

void VerbBatch::Take(std::shared_ptr<NoteWait> wait) {
  const auto* const change = std::get_if<PolicyChange>(&wait->note);
  const auto noted = change != nullptr ? engine_.RecordPolicy(*change)
                                       : engine_.RecordOrder(std::get<OperatorOrder>(wait->note));
  if (!noted) {
    wait->promise.set_value(noted);
  } else {
    notes_.push_back(std::move(wait));
  }
}

void VerbBatch::Take(Answered answered) {
  answered.is_read ? engine_.MarkAnswered(answered.attempt) : engine_.MarkUnread(answered.attempt);
  if (engine_.has_marks() && !marks_due_) marks_due_ = answered.due;
}

bool VerbBatch::WantsCommit() const {
  return engine_.batch_rows() != 0 || (marks_due_ && *marks_due_ <= clock_.Now());
}

void VerbBatch::Complete(bool is_durable) {
  CompleteVerbs(is_durable);
  CompleteFlows(is_durable);
  CompleteApprovals(is_durable);
  for (const LateBegin& late : late_begins_) CompleteLateBegin(late, is_durable);
  late_begins_.clear();
  for (JoinWait* wait : new_joins_) StartJoin(wait);
  new_joins_.clear();
  for (OpenWait* wait : opens_) {
    wait->result = engine_.Open(wait->after, wait->limit);
    Answer(wait);
  }
  opens_.clear();
  for (NewestWait* wait : newest_) {
    auto newest = engine_.AreNewest(wait->rows);
    auto promise = std::move(wait->promise);  // the waiter's frame may be gone before this returns
    promise.set_value(std::move(newest));
  }
  newest_.clear();
  if (engine_.is_latched()) {
    // No operation that runs can ever end in this process.
    for (JoinWait* wait : joins_.TakeAll()) {
      wait->result = std::unexpected(CommitFailed());
      Answer(wait);
    }
  }
}

void VerbBatch::CompleteVerbs(bool is_durable) {
  for (Durable& durable : durables_) {
    if (is_durable) {
      AddJob(durable.executor, [commit = std::move(durable.commit)] { commit->Complete({}); });
    } else {
      AddJob(durable.executor, [commit = std::move(durable.commit)] {
        commit->Complete(std::unexpected(CommitFailed()));
      });
    }
  }
  durables_.clear();
  for (RecordWait* wait : records_) {
    const std::uint64_t operation = wait->transition.operation;
    if (!is_durable) wait->result = std::unexpected(CommitFailed());
    Answer(wait);
    CompleteJoinsOf(operation);
  }
  records_.clear();
}

void VerbBatch::CompleteFlows(bool is_durable) {
  for (MoveWait* wait : moves_) {
    if (!is_durable) wait->result = std::unexpected(CommitFailed());
    Answer(wait);
  }
  moves_.clear();
  for (FlowsWait* wait : flow_lists_) {
    if (engine_.is_latched()) {
      wait->result = std::unexpected(CommitFailed());
    } else if (wait->named) {
      const FlowState* const found = engine_.flows().Find(wait->named->first, wait->named->second);
      wait->result = found == nullptr ? std::vector<FlowState>() : std::vector{*found};
    } else {
      wait->result = engine_.flows().List(wait->after, wait->limit);
    }
    Answer(wait);
  }
  flow_lists_.clear();
}

void VerbBatch::CompleteApprovals(bool is_durable) {
  for (DecideWait* wait : decisions_) {
    if (!is_durable) wait->result = std::unexpected(CommitFailed());
    Answer(wait);
  }
  decisions_.clear();
  for (ClaimsWait* wait : claim_lists_) {
    wait->result = engine_.Claims(wait->after, wait->limit);
    Answer(wait);
  }
  claim_lists_.clear();
  for (const std::uint64_t operation : engine_.TakeEndedClaims()) CompleteJoinsOf(operation);
}

void VerbBatch::CompleteLateBegin(const LateBegin& late, bool is_durable) {
  BeginWait* const wait = late.wait;
  if (!is_durable) {
    // What it was going to be told does not stand. Asked anew, the engine, which is latched now,
    // says what is left to say.
    auto step = engine_.Begin(wait->operation);
    if (step) {
      wait->result = std::move(step->begun);
    } else {
      wait->result = std::unexpected(step.error());
    }
  } else if (auto event = engine_.Load(late.seq)) {
    wait->result->event = std::move(*event);
  } else {
    wait->result = std::unexpected(event.error());
  }
  Answer(wait);
}

void VerbBatch::CompleteJoinsOf(std::uint64_t operation) {
  if (!joins_.Has(operation)) return;
  const auto state = engine_.StateOf(operation);
  if (state && IsAwaited(state->phase)) return;
  // Its answer may be large, and many may wait for it: each gets its copy when it is its turn.
  const auto shared = std::make_shared<const Result<Event>>(state ? engine_.Load(state->last_event)
                                                                  : std::unexpected(state.error()));
  for (JoinWait* wait : joins_.TakeOperation(operation)) {
    AddJob(wait->executor,
           [wait, shared] { wait->promise.Set(Result<std::optional<Event>>(*shared)); });
  }
}

void VerbBatch::StartJoin(JoinWait* wait) {
  const auto state = engine_.StateOf(wait->operation);
  if (!state) {
    wait->result = std::unexpected(state.error());
  } else if (wait->reads || !IsAwaited(state->phase)) {
    auto event = engine_.Load(state->last_event);
    if (event) {
      wait->result = std::move(*event);
    } else {
      wait->result = std::unexpected(event.error());
    }
  } else if (wait->deadline > clock_.Now() && joins_.Add(*wait)) {
    return;
  } else {
    wait->result = std::nullopt;
  }
  Answer(wait);
}

void VerbBatch::ExpireJoins() {
  if (!joins_.earliest()) return;
  for (JoinWait* wait : joins_.TakeExpired(clock_.Now())) {
    wait->result = std::nullopt;
    Answer(wait);
  }
}

void VerbBatch::EndJoins() {
  for (JoinWait* wait : joins_.TakeAll()) {
    wait->result = std::nullopt;
    Answer(wait);
  }
}

void VerbBatch::CompleteNotes(bool is_durable) {
  for (const std::shared_ptr<NoteWait>& wait : notes_) {
    wait->promise.set_value(is_durable ? Result<void>() : std::unexpected(CommitFailed()));
  }
  notes_.clear();
}

void VerbBatch::AddJob(Executor* executor, Job job) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [executor](const auto& entry) {
    return entry.first == executor;
  });
  const bool is_new = found == jobs_.end();
  auto& jobs = is_new ? jobs_.emplace_back(executor, 0).second : found->second;
  if (is_new) jobs.reserve(std::min(size_, limits::kCommitBatchMax));
  jobs.push_back(std::move(job));
}

// One Post per executor and batch: it wakes a thread.
void VerbBatch::PostJobs() {
  for (auto& [executor, jobs] : jobs_) {
    executor->Post(std::move(jobs));
  }
  jobs_.clear();
}

}  // namespace recourse::group_commit
