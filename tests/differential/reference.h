// The ledger's engine as it was before its verbs became rules: what the rules are held against,
// verb by verb. It leaves with the last of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/index/key_index.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/model/open_flows.h"
#include "filters/ledger/queries/operation_queries.h"
#include "filters/ledger/replay_counts.h"
#include "filters/ledger/rows/event_log.h"
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rules/begin_decision.h"
#include "filters/ledger/rules/clock_jumps.h"
#include "filters/ledger/rules/quotas.h"
#include "filters/ledger/rules/refusal_pace.h"
#include "filters/ledger/rules/retention.h"
#include "filters/ledger/rules/row_ages.h"
#include "proxy/base/limits.h"

namespace recourse {

// One thread at a time. After a failed Commit nothing is written any more; what was committed can
// still be read.
class ReferenceEngine {
 public:
  ReferenceEngine(LedgerParts parts, const Clock& clock);

  // Start (recovery.cpp): begins at the log's base; takes over what a checkpoint of cold() knew
  // about the log up to the checkpoint's row, then every later row in order, then begins a new
  // epoch. Fails with the number of a row that cannot be read.
  std::expected<void, std::uint64_t> Restore(const IndexMark& mark);
  // Fails with a static reason when the row is not what should follow.
  std::expected<void, std::string_view> Replay(std::uint64_t seq, std::string_view bytes);
  void StartEpoch();

  struct BeginStep {
    Begun begun;  // kFresh: whole, but for `commit`
    // Not 0: the row that holds begun.event; it stands in the batch, so the answer may leave only
    // after the commit, by way of Load.
    std::uint64_t load_after_commit = 0;
    // A row of this batch is what the answer rests on: its caller waits for the commit.
    bool writes_event = false;
  };
  // Takes what it needs out of `call`, unless it asks for load_after_commit. An error with
  // Delivery::kUncertain: there is, or may be, such an operation, and it may have had its effect.
  Result<BeginStep> Begin(NewOperation& call);
  Result<Event> Record(Transition& transition);
  void MarkAnswered(AttemptId answered);
  void MarkUnread(AttemptId answered);
  Result<void> RecordPolicy(const PolicyChange& change);
  Result<void> RecordOrder(const OperatorOrder& order);
  Result<FlowState> MoveFlow(FlowMove& move);
  Result<ApprovalOutcome> Decide(ApprovalOrder& order);
  // What is committed; skips what is not.
  Result<std::vector<PendingApproval>> Claims(std::uint64_t after, std::size_t limit);
  // Claims that the batch ended beside what its verbs were about.
  std::vector<std::uint64_t> TakeEndedClaims() { return std::exchange(ended_claims_, {}); }
  const OpenFlows& flows() const { return flows_; }

  // The batch.
  std::size_t batch_rows() const { return batch_.size(); }
  // What comes next must wait for another batch. A latched ledger has no other: its batch stays as
  // it is, and takes no more rows.
  bool is_batch_full() const {
    return !is_latched_ && (batch_.size() >= limits::kCommitBatchMax ||
                            batch_.bytes.size() >= limits::kCommitBatchBytesMax);
  }
  bool has_marks() const { return !marks_.empty(); }
  // Makes the batch durable, with the marks that wait. Fails with kLedgerUnavailable, for good.
  Result<void> Commit();

  // One step of retention, in a commit of its own; the batch must be empty. What is older than the
  // rule says leaves the front of the log, at most kRetireRows rows at a time.
  struct Retired {
    std::size_t rows = 0;  // removed
    bool more = false;     // there is more to remove now
    bool is_late = false;  // what is left is older than the rule says by a quarter and more
  };
  Result<Retired> Retire(const LedgerRule& rule);
  // How often to look when there is nothing more to remove.
  static Millis RetireEvery(const LedgerRule& rule);

  // A committed event, with its answer.
  Result<Event> Load(std::uint64_t seq);
  // The operation's state row and phase; kInternal: no such operation.
  struct State {
    std::uint64_t last_event = 0;
    Phase phase = Phase::kNone;
  };
  Result<State> StateOf(std::uint64_t operation);
  Result<std::vector<Event>> Open(std::uint64_t after, std::size_t limit);
  // For each row: whether its operation has no newer one that is committed.
  Result<std::vector<bool>> AreNewest(const std::vector<OperationRow>& rows);

  // New operations are refused while what came after a restored backup is not known to be nothing.
  bool is_restored() const { return is_restored_.load(std::memory_order_acquire); }
  // Thread-safe. Fails with a line for people.
  std::expected<void, std::string> AcceptRestoredBackup();

  bool is_latched() const { return is_latched_; }
  bool IsCommitted(std::uint64_t seq) const { return seq <= head_.seq; }
  const LogHead& head() const { return head_; }
  LedgerStats Stats();

  // Checkpoints of the index: Freeze gives what must be written into cold(), then FrozenIsStored.
  bool WantsFreeze() const { return !is_latched_ && index_.WantsFreeze(head_.seq); }
  std::shared_ptr<const IndexSnapshot> Freeze();
  void FrozenIsStored() { index_.DropFrozen(); }
  const std::shared_ptr<const IndexSnapshot>& frozen() const { return index_.frozen(); }
  bool is_crowded() const { return index_.is_crowded(); }
  // This start found no whole index of this log.
  void NoteIndexRebuilt() { is_index_rebuilt_ = true; }
  bool is_index_rebuilt() const { return is_index_rebuilt_; }
  bool is_index_full() const { return index_.is_full(); }
  bool is_index_damaged() const { return index_.is_damaged(); }
  ColdIndex* cold() { return parts_.cold.get(); }
  EventLog& log() { return *parts_.log; }
  const std::shared_ptr<const LedgerKeys>& keys() const { return parts_.keys; }
  std::int64_t WallMs() const { return ToUnixMillis(clock_.WallNow()); }

 private:
  static Error Latched();
  struct Found {
    Digest key{};
    KeyEntry entry;
  };
  struct OpenOperation {
    Digest key{};
    std::uint64_t last_event = 0;
    std::int64_t since_ms = 0;
    Phase phase = Phase::kNone;
    QuotaUsage::Use* caller = nullptr;  // while it is DISPATCHING, if this process began it
    bool may_have_more = true;          // than its request in its extension: an approval, a state
    std::uint64_t intent_before = 0;    // the operation that stood for its intent; 0: none
    std::uint64_t told = 0;  // row that said how it stands, however often that row was carried on
  };
  // An operation that waits for a human, or was approved.
  struct OpenClaim {
    std::uint64_t last_event = 0;
    std::size_t bytes = 0;  // of that row
    Digest flow{};          // FlowKeyOf
    std::string caller;
  };
  // What one step of retention is going to do.
  struct RetireStep {
    std::uint64_t through = 0;  // rows up to here may leave
    std::int64_t lived_ms = 0;
    std::int64_t tombstones_ms = 0;
    std::map<std::uint64_t, Digest> moved;
    RetiredRow row;
    LogBase base;  // grows with every row
  };
  // What a call that begins finds, and what that means.
  struct Ground {
    std::optional<Found> same_key{};                          // under its key
    std::optional<Found> same_intent{};                       // under another one
    Ended key_ended = Ended::kNo, intent_ended = Ended::kNo;  // see BeginFacts
    bool is_refused = false;  // a human's no to an equal call stands: `same_intent`
    bool is_older = false;    // `same_key` was found under an earlier recipe
    BeginDecision decision{};
    const Found* target() const;  // that the decision is about; null: none
    const Found* fenced() const;  // what is told of a call that its flow's fence holds back
    bool would_be_made() const;   // as if there had been nothing that may have had its effect
  };
  struct KeyOfOperation {
    std::uint64_t operation = 0;
    Digest key{};
  };

  Result<std::optional<Found>> FindByKey(const Digest& key);
  Result<std::optional<Found>> FindByOperation(std::uint64_t operation);
  // The operation that an alias stands for; whatever else was found is what it is.
  Result<std::optional<Found>> FollowAlias(Found found);
  // What the call's key means, or the key that the agent has named. Where that had no effect, the
  // call takes its intent.
  Result<std::optional<Found>> FindMeant(NewOperation& call);
  // The operation whose own key the agent has named, or what was made in its place.
  Result<std::optional<Found>> FindNamed(const NewOperation& call);
  // What began under an earlier recipe and has not come to an end; see NewOperation::older.
  Result<void> HeedOlder(NewOperation& call, Ground& ground);
  Result<std::optional<Found>> FindUnfinished(const NewOperation& call, const OlderRecipe& older);
  Result<std::optional<Found>> FindOlderIntent(const NewOperation& call, const OlderRecipe& older);
  // Where the arguments were compared otherwise when it began.
  static void CompareAsThen(const NewOperation& call, std::optional<Found>& same_key);
  static bool ClientWaits(const NewOperation& call, const Found& found);
  // Of equal calls that only retries repeat, the newest may have been answered, and an earlier one
  // not: that one. nullopt: what was found under the key stands for all.
  Result<std::optional<Found>> FindUnanswered(const NewOperation& call, const Digest& key,
                                              const std::optional<Found>& newest);
  // The same of calls of one intent, before the one that was sent last.
  Result<std::optional<Found>> FindUnansweredBefore(const NewOperation& call, std::uint64_t last);
  // Equal calls at once of which an unanswered one is looked for.
  static constexpr std::uint32_t kEqualCallsLooked = 32;
  // Whether what it did stands no more, as far as anybody knows.
  Result<Ended> IsSuperseded(const NewOperation& call, const std::optional<Found>& found);
  // By an effect that became known behind the row `since`.
  Result<Ended> EndedSince(const EventFront& write, std::uint64_t since);
  Result<bool> IsEndedSince(const EventFront& write, std::uint64_t since);
  Result<Ended> ContradictedSince(const EventFront& patch, std::uint64_t since);
  Result<Ended> EndedBy(const EventFront& write, const Mark& mark, std::uint64_t row);
  // By a write that may have had its effect behind it: it runs, or nobody knows.
  Result<bool> IsEndedByOpen(const EventFront& write);
  // Of a final row that leaves: its repeat would be made anew, so that nothing remembers its key.
  Result<bool> StandsNoMore(const EventFront& write, std::uint64_t row);
  // Whether what the operation made is gone already, so that nothing has to be undone.
  Result<bool> IsGone(std::uint64_t operation);
  Result<bool> IsRemovedSince(const EventFront& write, std::uint64_t since);
  // Reads the front of an event that may be not committed yet; its texts are not valid.
  Result<EventFront> ReadEventFront(std::uint64_t seq);
  // Completes what a row says of its standing before it is written.
  void JudgeStanding(Event& event, const KeyEntry* previous);
  // The first generation of the key, from `wanted` on, that nothing has.
  Result<std::uint32_t> FreeGeneration(const Digest& key, std::uint32_t wanted);
  Result<std::optional<Found>> FindByIntent(const Digest& intent, Principal principal);
  // The operation of the same intent under another key that the call may repeat.
  Result<std::optional<Found>> FindSameIntent(const NewOperation& call,
                                              const std::optional<Found>& same_key,
                                              bool is_superseded);
  // With the wall time of its state corrected by what is known of jumps.
  std::optional<Found> Dated(std::optional<Found> found) const;
  Result<std::optional<Digest>> KeyOf(std::uint64_t operation);
  bool ReadRow(std::uint64_t seq, std::string& row);
  // An event that may be not committed yet, without its answer.
  Result<Event> ReadEvent(std::uint64_t seq);

  struct Refused {
    Found found;
    Event event;
  };
  void NoteNo(std::string_view caller, std::string_view tool, const Digest& args_hash,
              std::uint64_t operation);
  // What a human refused under that KeyOfNo, not longer ago than that.
  Result<std::optional<Refused>> FindNo(const Digest& key, Millis expires);
  // A call that would ask a human: is told the no to an equal one, or shows that to another one.
  Result<void> HeedNo(NewOperation& call, Ground& ground);

  // Turns the call into one that asks a human where it must.
  Result<Ground> Survey(NewOperation& call);
  void Decide(const NewOperation& call, Ground& ground) const;
  Result<BeginStep> BeginFresh(NewOperation& call, const BeginDecision& decision,
                               const Found* found);
  Result<BeginStep> BeginLatched(NewOperation& call, const KeyEntry& entry) const;
  std::optional<Millis> PauseOf(const NewOperation& call, const Ground& ground);
  Result<BeginStep> BeginTooOften(NewOperation& call, const Ground& ground, Millis wait);
  bool IsKeyOver(const NewOperation& call, std::uint64_t operation);
  // What becomes of a call that would be a further attempt of the operation in `last`.
  Begun::Kind JudgeAttempt(const NewOperation& call, const Event& last);
  // The new attempt in `event` waits for humans, or goes on under an approval that still stands.
  void AskOrContinue(const NewOperation& call, const Found* found, Event& event);
  // The approval under which the call may be sent that goes on with one whose server has asked for
  // input: nothing was executed under it, and nothing has changed since it was given.
  std::optional<ApprovalFacts> StandingApproval(const NewOperation& call, const Found& found);
  void Ask(const NewOperation& call, Event& event);
  // Makes the call one that asks a human whether it repeats `found`.
  void Suspect(const Found& found, bool is_same_key, NewOperation& call) const;
  Result<BeginStep> BeginApproved(NewOperation& call);
  std::optional<Error> ClaimRefusal(const NewOperation& call);
  Result<Event> LoadClaim(const KeyEntry& entry);
  Millis TimeLeft(const ApprovalFacts& facts) const;
  void NoteOrder(const ApprovalOrder& order, const ApprovalRuling& ruling, Event& event);
  Result<void> EndPendingApproval(Event& event, Cause cause, std::string detail,
                                  const KeyEntry& entry);
  void EndClaimsOf(const FlowState& flow);
  void ReplayClaim(const RowView& row, const EventFront& front);
  void TrackClaim(std::uint64_t operation, Phase phase, OpenClaim claim);
  Result<BeginStep> BeginRepeat(NewOperation& call, const BeginDecision& decision,
                                const Found& found);
  Result<BeginStep> BeginObserved(NewOperation& call, const BeginDecision& decision,
                                  const Found* found);
  // What stands in the way of one more attempt.
  std::optional<Error> Refusal(const NewOperation& call, bool is_new);
  // Whether `bytes` more fit beside everything that is promised to fit.
  bool HasSpace(std::size_t bytes);
  void LookAtSpace();
  void WarnAboutSpace(int percent);
  void TakeSpace(std::size_t bytes);
  std::uint64_t ReserveBytes() const;
  bool DropAnswersOfBatch();
  void CountAttempt(const Event& event, bool is_new);
  // The operation's last event, as a transition needs it.
  Result<Event> LastEvent(const KeyEntry& entry, Transition& transition);
  Result<void> AppendEvent(Event& event, const KeyEntry* previous);
  Result<void> TakeBefore(NewOperation& call, const Found* found);
  void BindKey(const Digest& key, std::uint64_t operation);
  void AppendAlias(const Alias& alias);
  void AppendMarks();
  std::uint64_t AppendFlow(FlowState state);  // gives its row
  // Of a call that would be sent: the flow that forbids it, and what else does.
  Result<std::uint64_t> FenceOf(const NewOperation& call, const Found* found);
  Result<BeginStep> BehindFence(NewOperation& call, const Found* found, std::uint64_t flow);
  Result<void> CheckUndo(const NewOperation& call);
  Result<FlowState> Reopen(FlowState state);
  Result<std::pair<Event, KeyEntry>> Compensated(std::uint64_t operation);
  void MoveFlowOf(const Event& event, const Transition::FlowEffect& effect);
  void TellFlow(const Event& event);
  Result<void> RetireFlow(const RowView& row);
  RowHead NextHead(RowKind kind);
  // When `row`, which says it was written at `written_ms`, was written by a wall clock that says
  // `wall_ms` now: the difference is its true age.
  std::int64_t DatedMs(std::uint64_t row, std::int64_t written_ms, std::int64_t wall_ms) const;
  // The age itself.
  std::int64_t AgeMs(std::uint64_t row, std::int64_t written_ms, std::int64_t wall_ms) const;
  void CloseRow();
  void Apply(const Event& event, const KeyEntry* previous);
  bool ReplayPayload(const RowView& row);
  // The operation that stood for the intent until then, while `front` is open.
  std::uint64_t NoteIntent(const EventFront& front);
  // What was sent last stands before those of its intent that are not over.
  void LinkIntent(const Digest& intent, std::uint64_t operation, std::uint64_t last);
  std::uint64_t BeforeInIntent(const Digest& intent, std::uint64_t operation);  // 0: none
  void NoteWrite(const EventFront& front, std::uint64_t seq, const KeyEntry* previous);
  void ForgetWrite(const EventFront& front, std::uint64_t seq);
  void ApplyFront(const EventFront& front, std::uint64_t seq, std::int64_t wall_ms,
                  const KeyEntry* previous);
  void TrackOpen(std::uint64_t operation, const OpenOperation& state, bool is_observed);
  std::int64_t OldestPendingMs();
  void ApplyRetired(const RetiredRow& retired, std::uint64_t seq);
  // The rows that one step looks at; false when they cannot be read.
  bool ReadOldRows(std::uint64_t through, std::vector<std::string>& rows);
  Result<void> RetireRows(const std::vector<std::string>& rows, RetireStep& step);
  // False: the row is left to the next step.
  Result<bool> RetireRow(const RowView& row, RetireStep& step);
  Result<void> RetireEvent(const RowView& row, RetireStep& step);
  Result<void> RetireBase(const Digest& base_key, const RowView& row, RetireStep& step);
  Result<void> RetireAlias(const RowView& row, RetireStep& step);
  Result<void> RetirePolicy(const RowView& row);
  Result<bool> RetireTombstones(const RowView& row, RetireStep& step);
  Result<void> RetireLast(const RowView& row, const EventFront& front, const ColdEntry& own,
                          RetireStep& step);
  void KeepFlowOf(const RowView& row, std::uint64_t operation);
  Result<void> CopyForward(const RowView& row, const EventFront& front, const KeyEntry& entry);
  void AddTombstone(Tombstone tombstone, const RowView& row, RetireStep& step);
  void EndOperation(const EventFront& front, RetireStep& step);
  void FinishRetire(MonoTime now, bool is_marked, RetireStep& step);
  Result<Later> LaterOf(const Digest& key, std::uint32_t newest_generation);
  // At least so old is the oldest row, in lived time.
  std::int64_t OldestRowMs() const;

  // constant after construction
  LedgerParts parts_;
  const Clock& clock_;
  const std::unique_ptr<EventLog::Reader> reader_;
  std::optional<RowEncryptor> sealer_;  // unset: no keys
  RowDecryptor opener_;

  LogHead head_;    // of what is committed
  Digest chain_{};  // hash of the last row built
  RowBatch batch_;
  std::vector<std::uint64_t> marks_;
  bool is_latched_ = false;
  std::atomic<bool> is_restored_;
  ClockJumps jumps_;
  RefusalPace refusals_;
  ReplayCounts replays_;
  std::uint64_t accepted_seq_ = 0;       // row of the newest kAcceptOrder
  bool went_back_before_start_ = false;  // the wall clock, between this start and the row before it

  KeyIndex index_;
  bool is_index_rebuilt_ = false;                // constant after the start
  std::map<std::uint64_t, OpenOperation> open_;  // by operation
  // The operations in open_ by the marks that they may leave.
  std::unordered_multimap<Digest, std::uint64_t, DigestHash> open_marks_;
  std::uint64_t running_ = 0;
  std::map<std::uint64_t, OpenClaim> claims_;  // by operation
  std::uint64_t claim_bytes_ = 0;              // of their rows
  std::vector<std::uint64_t> ended_claims_;
  // Operations that are kept though their first row is not. All of them were open when that row
  // was as old as the retention, so they are not more than kOpenOperationsMax by much.
  std::map<std::uint64_t, Digest> moved_;
  RowAges ages_;
  std::uint64_t first_seq_ = 1;
  std::uint64_t tombstones_ = 0;
  std::uint64_t locked_carried_ = 0;
  std::uint64_t policy_seq_ = 0;  // row of the policy in force; 0: none was told yet
  QuotaUsage callers_;
  OpenFlows flows_;
  std::uint64_t process_first_seq_ = 0;  // first row that this process wrote
  std::array<std::uint64_t, kQuotaKindCount> quota_refusals_{};
  std::uint64_t free_bytes_ = 0;
  std::uint64_t space_wanted_ = 0;  // the most that was asked for since the last commit
  MonoTime space_looked_at_{};
  bool space_is_stale_ = false;  // something was committed since
  bool is_full_ = false;
  int space_warned_ = 0;           // percent
  std::int64_t retention_ms_ = 0;  // of the rule applied last; 0: none was
  // Where MarkAnswered finds the key without reading the log; slot = operation % kRecentKeys. It
  // grows to the slots in use, as a start need not touch memory for all.
  static constexpr std::size_t kRecentKeys = 16'384;
  std::vector<KeyOfOperation> recent_keys_;

  std::uint64_t operations_ = 0;
  std::uint64_t commits_ = 0;
  std::int64_t oldest_pending_ms_ = 0;
  std::string row_;  // reused
};

}  // namespace recourse
