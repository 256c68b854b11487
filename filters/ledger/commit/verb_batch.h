// The verbs of one batch: decides each as it is taken, and answers it once the batch is durable or
// is not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "filters/ledger/commit/group_commit_waits.h"
#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/join_table.h"

namespace recourse::group_commit {

// On the ledger's thread.
class VerbBatch {
 public:
  VerbBatch(Engine& engine, const Clock& clock) : engine_(engine), clock_(clock) {}

  // At most so many verbs come before the next commit.
  void Expect(std::size_t verbs) { size_ = verbs; }
  void Take(BeginWait* wait);
  void Take(RecordWait* wait);
  void Take(JoinWait* wait) { new_joins_.push_back(wait); }
  void Take(OpenWait* wait) { opens_.push_back(wait); }
  void Take(MoveWait* wait);
  // What is not committed yet is not told as if it stood.
  void Take(FlowsWait* wait) { flow_lists_.push_back(wait); }
  void Take(DecideWait* wait);
  void Take(ClaimsWait* wait) { claim_lists_.push_back(wait); }
  void Take(std::shared_ptr<NoteWait> wait);
  void Take(NewestWait* wait) { newest_.push_back(wait); }
  void Take(Answered answered);

  // By then the marks of what was answered are to be written; nullopt: there are none.
  std::optional<MonoTime> marks_due() const { return marks_due_; }
  void MarksAreWritten() { marks_due_.reset(); }
  // Whether a commit is worth it now.
  bool WantsCommit() const;

  // Whoever waited for the batch is answered, in jobs that wait for PostJobs.
  void Complete(bool is_durable);
  void CompleteNotes(bool is_durable);
  void ExpireJoins();
  void EndJoins();
  std::optional<MonoTime> next_join() const { return joins_.earliest(); }
  // One Post per executor and batch: it wakes a thread.
  void PostJobs();

 private:
  // What waits for the commit of the batch being built.
  struct Durable {
    Executor* executor = nullptr;
    std::shared_ptr<PendingCommit> commit;
  };
  struct LateBegin {
    BeginWait* wait = nullptr;
    std::uint64_t seq = 0;
  };

  void CompleteVerbs(bool is_durable);
  void CompleteFlows(bool is_durable);
  void CompleteApprovals(bool is_durable);
  void CompleteLateBegin(const LateBegin& late, bool is_durable);
  void CompleteJoinsOf(std::uint64_t operation);
  void StartJoin(JoinWait* wait);
  template <class Wait>
  void Answer(Wait* wait);
  void AddJob(Executor* executor, Job job);

  Engine& engine_;
  const Clock& clock_;
  std::vector<Durable> durables_;
  std::vector<RecordWait*> records_;
  std::vector<MoveWait*> moves_;
  std::vector<LateBegin> late_begins_;
  std::vector<JoinWait*> new_joins_;
  std::vector<OpenWait*> opens_;
  std::vector<FlowsWait*> flow_lists_;
  std::vector<DecideWait*> decisions_;
  std::vector<ClaimsWait*> claim_lists_;
  std::vector<std::shared_ptr<NoteWait>> notes_;
  std::vector<NewestWait*> newest_;
  std::vector<std::pair<Executor*, std::vector<Job>>> jobs_;
  JoinTable joins_;
  std::optional<MonoTime> marks_due_;
  std::size_t size_ = 0;
};

}  // namespace recourse::group_commit
