// The reading half of ReferenceEngine: look-ups, and taking over what the log already holds.
#include <algorithm>
#include <utility>

#include "tests/differential/reference.h"

namespace recourse {
namespace {

// Beyond this many open operations the oldest one is looked for now and then only.
constexpr std::size_t kOpenScannedAlways = 256;
constexpr std::uint64_t kCommitsBetweenScans = 64;

}  // namespace

bool ReferenceEngine::ReadRow(std::uint64_t seq, std::string& row) {
  if (IsCommitted(seq)) return reader_->Read(seq, row);
  const std::uint64_t at = seq - batch_.first_seq;
  if (at >= batch_.size()) return false;
  row = batch_.row(at);
  return true;
}

Result<Event> ReferenceEngine::Load(std::uint64_t seq) {
  Event event;
  if (!IsCommitted(seq) || !reader_->Read(seq, row_)) return std::unexpected(Unreadable(seq));
  const auto row = ParseRow(row_);
  if (!row || row->head.seq != seq || !DecodeEvent(*row, AnswerPart::kLoad, opener_, event)) {
    return std::unexpected(Unreadable(seq));
  }
  return event;
}

Result<Event> ReferenceEngine::ReadEvent(std::uint64_t seq) {
  Event event;
  if (!ReadRow(seq, row_)) return std::unexpected(Unreadable(seq));
  const auto row = ParseRow(row_);
  if (!row || !DecodeEvent(*row, AnswerPart::kOnlyRequest, opener_, event)) {
    return std::unexpected(Unreadable(seq));
  }
  return event;
}

Result<Event> ReferenceEngine::LastEvent(const KeyEntry& entry, Transition& transition) {
  // A final outcome drops the request, so what holds that alone need not be opened.
  const auto open = open_.find(transition.operation);
  const bool drops = IsFinal(transition.to) && open != open_.end() && !open->second.may_have_more;
  if (drops && transition.dispatching != nullptr &&
      transition.dispatching->id == entry.last_event) {
    return std::move(*transition.dispatching);
  }
  if (!ReadRow(entry.last_event, row_)) return std::unexpected(Unreadable(entry.last_event));
  const auto row = ParseRow(row_);
  const AnswerPart part = drops ? AnswerPart::kSkipBody : AnswerPart::kOnlyRequest;
  Event event;
  if (!row || !DecodeEvent(*row, part, opener_, event)) {
    return std::unexpected(Unreadable(entry.last_event));
  }
  return event;
}

Result<std::optional<Digest>> ReferenceEngine::KeyOf(std::uint64_t operation) {
  const std::size_t slot = operation % kRecentKeys;
  if (operation != 0 && slot < recent_keys_.size() && recent_keys_[slot].operation == operation) {
    return recent_keys_[slot].key;
  }
  if (const auto open = open_.find(operation); open != open_.end()) return open->second.key;
  if (const auto moved = moved_.find(operation); moved != moved_.end()) return moved->second;
  if (!ReadRow(operation, row_)) return std::nullopt;
  const auto row = ParseRow(row_);
  if (!row) return std::unexpected(Unreadable(operation));
  EventFront front;
  if (!DecodeEventFront(*row, front) || front.operation != operation) return std::nullopt;
  return front.key;
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindByOperation(
    std::uint64_t operation) {
  const auto key = KeyOf(operation);
  if (!key) return std::unexpected(key.error());
  if (!*key) return std::nullopt;
  const auto entry = index_.Find(**key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry || (*entry)->operation != operation || (*entry)->is_tombstone) return std::nullopt;
  return Found{**key, **entry};
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindByKey(const Digest& key) {
  auto entry = index_.Find(key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return std::nullopt;
  if ((*entry)->newest_generation == 0) return FollowAlias({key, **entry});
  const Digest newest = KeyOfGeneration(key, (*entry)->newest_generation);
  const auto own = index_.Find(newest);
  if (!own) return std::unexpected(own.error());
  if (*own) return FollowAlias({newest, **own});
  // The tombstone of the newest generation is gone too; this one speaks for it.
  if ((*entry)->is_alias || !(*entry)->is_tombstone) return FollowAlias({key, **entry});
  KeyEntry last = **entry;
  last.generation = last.newest_generation;
  return Found{newest, last};
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FollowAlias(Found found) {
  if (!found.entry.is_alias) return found;
  auto meant = FindByOperation(found.entry.operation);
  if (!meant || *meant || found.entry.operation >= first_seq_) return meant;
  // What it stood for is kept no longer.
  found.entry.is_alias = false;
  found.entry.is_tombstone = true;
  found.entry.phase = Phase::kTombstone;
  return found;
}

// Of a key that is an alias the decision knows only the operation that it stands for.
Result<std::uint32_t> ReferenceEngine::FreeGeneration(const Digest& key, std::uint32_t wanted) {
  const auto base = index_.Locate(key);
  if (!base) return std::unexpected(base.error());
  return *base ? std::max(wanted, (*base)->newest_generation + 1) : wanted;
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindMeant(NewOperation& call) {
  // Whatever its key means by now.
  if (call.passes_fence) return FindByOperation(call.event.operation);
  auto found = FindByKey(call.event.key);
  // Observe mode tells nobody a key.
  if (!found || !call.named || call.event.verdict != ObserveVerdict::kNone) return found;
  if (!*found) found = FindNamed(call);
  if (!found || !*found) return found;
  const KeyEntry& entry = (*found)->entry;
  if (entry.is_tombstone || MayHaveEffect(entry.phase)) return found;
  // The same call may have been made under another key in its place.
  const auto last = ReadEvent(entry.last_event);
  if (!last) return std::unexpected(last.error());
  call.event.intent = last->intent;
  return found;
}

bool ReferenceEngine::ClientWaits(const NewOperation& call, const Found& found) {
  return call.wait != nullptr && call.wait->OthersWaitFor(found.entry.operation);
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindNamed(const NewOperation& call) {
  const auto entry = index_.Find(*call.named);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry || (*entry)->operation == 0) return std::nullopt;
  Found named{*call.named, **entry};
  if (named.entry.newest_generation > 0 && !MayHaveEffect(named.entry.phase)) {
    // What was made in its place and is told no more still counts.
    const Digest newest = KeyOfGeneration(named.key, named.entry.newest_generation);
    const auto later = index_.Find(newest);
    if (!later) return std::unexpected(later.error());
    if (*later && ((*later)->is_alias || (*later)->is_tombstone)) named = {newest, **later};
  }
  if (named.entry.is_tombstone) return named;
  auto found = FollowAlias(std::move(named));
  if (!found || !*found || (*found)->entry.is_tombstone) return found;
  const auto last = ReadEvent((*found)->entry.last_event);
  if (!last) return std::unexpected(last.error());
  // Under an earlier name of caller or tool it keeps its own, and is withheld.
  const auto was_its_recipe = [&](const OlderRecipe& older) {
    return older.caller == last->caller && older.tool == last->tool;
  };
  const bool is_its = (last->caller == call.event.caller && last->tool == call.event.tool) ||
                      (std::ranges::any_of(call.older, was_its_recipe) && !IsOver((*found)->entry));
  const bool is_meant = is_its && last->undoes == 0 && last->verdict == ObserveVerdict::kNone;
  if (!is_meant) return std::nullopt;
  return found;
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindByIntent(const Digest& intent,
                                                                            Principal principal) {
  if (intent == Digest{}) return std::nullopt;
  auto operation = index_.FindIntent(KeyOfIntent(intent, principal));
  // What an earlier version began may be anybody's.
  if (operation && !*operation) {
    operation = index_.FindIntent(KeyOfIntent(intent, kNoPrincipal));
  }
  if (!operation) return std::unexpected(operation.error());
  if (!*operation) return std::nullopt;
  return FindByOperation(**operation);
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindSameIntent(
    const NewOperation& call, const std::optional<Found>& same_key, bool is_superseded) {
  if (call.across_traces == AcrossTraces::kNever) return std::nullopt;
  // Its window may be over.
  const bool may_be_free = !same_key || is_superseded || !MayHaveEffect(same_key->entry.phase) ||
                           (call.dedupe_window && IsFinal(same_key->entry.phase));
  if (!may_be_free) return std::nullopt;
  auto found = FindByIntent(call.event.intent, call.event.principal);
  if (!found || !*found) return found;
  found = Dated(std::move(*found));
  const KeyEntry& last = (*found)->entry;
  if (!RepeatsAcross(call, last, ClientWaits(call, **found), WallMs())) {
    auto unanswered = FindUnansweredBefore(call, last.operation);
    if (!unanswered || *unanswered) return unanswered;
  }
  if (call.across_traces != AcrossTraces::kAsk) return found;
  if (MayHaveEffect(last.phase) || IsClaim(last.phase)) return found;
  // A human was asked about it and it had no effect: what it was suspected to repeat still stands.
  const auto asked = ReadEvent(last.last_event);
  if (!asked) return std::unexpected(asked.error());
  if (!asked->approval || asked->approval->repeats == 0) return found;
  auto repeated = FindByOperation(asked->approval->repeats);
  if (!repeated) return repeated;
  return Dated(std::move(*repeated));
}

std::optional<ReferenceEngine::Found> ReferenceEngine::Dated(std::optional<Found> found) const {
  if (!found) return found;
  KeyEntry& entry = found->entry;
  entry.last_wall_ms = DatedMs(entry.last_event, entry.last_wall_ms, WallMs());
  return found;
}

Result<ReferenceEngine::State> ReferenceEngine::StateOf(std::uint64_t operation) {
  const auto found = FindByOperation(operation);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::unexpected(Error(ErrorCode::kInternal, "no such operation"));
  return State{(*found)->entry.last_event, (*found)->entry.phase};
}

Result<std::vector<Event>> ReferenceEngine::Open(std::uint64_t after, std::size_t limit) {
  std::vector<Event> events;
  for (auto at = open_.upper_bound(after); at != open_.end() && events.size() < limit; ++at) {
    // Only a failed commit leaves an operation that cannot be read; it is open all the same.
    if (!IsCommitted(at->second.last_event)) continue;
    auto event = Load(at->second.last_event);
    if (!event) return std::unexpected(event.error());
    events.push_back(std::move(*event));
  }
  return events;
}

Result<std::vector<bool>> ReferenceEngine::AreNewest(const std::vector<OperationRow>& rows) {
  std::vector<bool> newest;
  newest.reserve(rows.size());
  for (const OperationRow& row : rows) {
    const auto located = index_.Locate(row.key);
    if (!located) return std::unexpected(located.error());
    bool is_newest =
        !*located || (*located)->last_event == row.row || !IsCommitted((*located)->last_event);
    if (!is_newest) {
      // The key may mean another operation by now.
      const auto entry = index_.Find(row.key);
      if (!entry) return std::unexpected(entry.error());
      is_newest = !*entry || (*entry)->operation != row.operation;
    }
    newest.push_back(is_newest);
  }
  return newest;
}

// The policy may name another backend or key field by now, or the agent another key: to that one
// the repeat would be new.
Begun::Kind ReferenceEngine::JudgeAttempt(const NewOperation& call, const Event& last) {
  const std::optional<std::string> field = KeyFieldOf(last);
  if (last.phase == Phase::kUncertain) {
    if (last.is_locked || last.dedupe_domain != call.event.dedupe_domain) {
      return Begun::Kind::kUnknown;
    }
    // A repeat that sends it again would be a second use of its approval. Who passes the fence has
    // the request that was sent, key and all.
    const bool is_key_known = field || last.dedupe_domain == 0;
    if (!call.passes_fence && (last.approval || !is_key_known)) return Begun::Kind::kUnknown;
    if (IsKeyOver(call, last.operation)) return Begun::Kind::kUnknown;
  }
  const bool is_observed = call.event.verdict != ObserveVerdict::kNone;
  if (is_observed || call.passes_fence || !field) return Begun::Kind::kFresh;
  const bool is_same = call.event.key_field.value_or(std::string()) == *field;
  return is_same ? Begun::Kind::kFresh : Begun::Kind::kOtherKey;
}

// The key's life began, at the latest, with the operation's first row. Whatever makes its age
// doubtful ends it.
bool ReferenceEngine::IsKeyOver(const NewOperation& call, std::uint64_t operation) {
  if (call.key_lives == Millis::max()) return false;
  const bool is_of_backup = is_restored() && operation < process_first_seq_;
  if (is_of_backup || operation <= accepted_seq_ || !ReadRow(operation, row_)) return true;
  const auto row = ParseRow(row_);
  if (!row) return true;
  const MonoTime now = clock_.Now();
  const std::int64_t wall_ms = WallMs();
  const std::int64_t by_wall = wall_ms - row->head.wall_ms;
  const std::int64_t lived = jumps_.AgeMs(operation, row->head.wall_ms, now, wall_ms);
  const bool went_back = by_wall < 0 || lived - by_wall >= ClockJumps::kNoticedMs ||
                         (went_back_before_start_ && operation < process_first_seq_);
  return went_back || std::max(by_wall, lived) > call.key_lives.count() ||
         ages_.OldThrough(now, call.key_lives) >= operation;
}

std::int64_t ReferenceEngine::DatedMs(std::uint64_t row, std::int64_t written_ms,
                                      std::int64_t wall_ms) const {
  return wall_ms - AgeMs(row, written_ms, wall_ms);
}

std::int64_t ReferenceEngine::AgeMs(std::uint64_t row, std::int64_t written_ms,
                                    std::int64_t wall_ms) const {
  const MonoTime now = clock_.Now();
  return std::max(jumps_.AgeMs(row, written_ms, now, wall_ms), ages_.LeastAgeMs(now, row));
}

std::int64_t ReferenceEngine::OldestPendingMs() {
  if (open_.size() > kOpenScannedAlways && commits_ % kCommitsBetweenScans != 0) {
    return oldest_pending_ms_;
  }
  std::int64_t oldest = 0;
  for (const auto& [operation, state] : open_) {
    oldest = oldest == 0 ? state.since_ms : std::min(oldest, state.since_ms);
  }
  oldest_pending_ms_ = oldest;
  return oldest;
}

LedgerStats ReferenceEngine::Stats() {
  LedgerStats stats;
  stats.last_id = head_.seq;
  stats.first_id = first_seq_;
  stats.rows = head_.seq - first_seq_ + 1;
  stats.tombstones = tombstones_;
  stats.free_bytes = free_bytes_;
  stats.reserve_bytes = ReserveBytes();
  stats.locked_carried = locked_carried_;
  stats.is_full = is_full_ || index_.is_full();
  stats.quota_refusals = quota_refusals_;
  stats.oldest_row_ms = OldestRowMs();
  if (retention_ms_ > 0)
    stats.retention_lag_ms = std::max<std::int64_t>(0, stats.oldest_row_ms - retention_ms_);
  stats.operations = operations_;
  stats.running = running_;
  stats.uncertain = open_.size() - running_;
  stats.commits = commits_;
  stats.epoch = head_.epoch;
  stats.oldest_pending_ms = OldestPendingMs();
  stats.latched = is_latched_;
  stats.restored = is_restored();
  stats.approvals_pending = claims_.size();
  stats.flows_open = flows_.CountOf(FlowPhase::kOpen);
  stats.flows_breaking = flows_.CountOf(FlowPhase::kBreaking) + flows_.CountOf(FlowPhase::kUndoing);
  stats.flows_stopped = flows_.stopped();
  stats.flows_parked = flows_.CountOf(FlowPhase::kNeedsHuman) - flows_.stopped();
  stats.flows_parked_since_ms = flows_.ParkedSinceMs();
  stats.identity = parts_.log->identity();
  stats.head = head_.hash;
  return stats;
}

std::expected<void, std::uint64_t> ReferenceEngine::Restore(const IndexMark& mark) {
  operations_ = mark.operations;
  tombstones_ = mark.tombstones;
  accepted_seq_ = mark.accepted_seq;
  for (const MovedOperation& moved : mark.moved) moved_[moved.operation] = moved.key;
  if (!flows_.Decode(mark.flows, clock_.Now())) return std::unexpected(mark.applied_seq);
  index_.set_stored_seq(mark.applied_seq);
  head_ = {mark.applied_seq, 0, mark.applied_hash};
  chain_ = head_.hash;
  batch_.first_seq = head_.seq + 1;
  if (reader_->Read(mark.applied_seq, row_)) {
    if (const auto row = ParseRow(row_)) head_.epoch = row->head.epoch;
  }
  for (const OpenReference& open : mark.open) {
    EventFront front;
    // Retention moved it behind the mark, where it will be found.
    if (open.last_event < first_seq_) continue;
    if (!reader_->Read(open.last_event, row_)) return std::unexpected(open.last_event);
    const auto row = ParseRow(row_);
    if (!row || !DecodeEventFront(*row, front)) return std::unexpected(open.last_event);
    if (IsClaim(front.phase)) {
      ReplayClaim(*row, front);
      continue;
    }
    const bool is_moved = front.cause == Cause::kCarried;
    NoteWrite(front, open.last_event, nullptr);
    TrackOpen(open.operation,
              {front.key, open.last_event, row->head.wall_ms, front.phase, nullptr, true, 0,
               is_moved ? front.stands.dispatched : open.last_event},
              front.verdict != ObserveVerdict::kNone);
  }
  return {};
}

std::expected<void, std::string_view> ReferenceEngine::Replay(std::uint64_t seq,
                                                              std::string_view bytes) {
  const auto row = ParseRow(bytes);
  if (!row) return std::unexpected(row.error());
  if (row->head.seq != seq || seq != head_.seq + 1) return std::unexpected("row number is wrong");
  if (row->head.prev_hash != head_.hash) return std::unexpected("hash chain is broken");
  if (!ReplayPayload(*row)) return std::unexpected("payload cannot be read");
  head_ = {seq, row->head.epoch, RowHash(bytes)};
  chain_ = head_.hash;
  batch_.first_seq = seq + 1;
  return {};
}

bool ReferenceEngine::ReplayPayload(const RowView& row) {
  if (row.head.kind == RowKind::kEpoch) return true;
  if (row.head.kind == RowKind::kPolicy) {
    PolicyChange change;
    policy_seq_ = row.head.seq;
    return DecodePolicy(row, change);
  }
  if (row.head.kind == RowKind::kOrder) {
    OperatorOrder order;
    if (!DecodeOrder(row, order)) return false;
    if (order.what == kAcceptOrder) accepted_seq_ = row.head.seq;
    return true;
  }
  if (row.head.kind == RowKind::kRetired) {
    RetiredRow retired;
    if (!DecodeRetired(row, retired)) return false;
    operations_ = std::max(operations_, retired.operations);
    tombstones_ = retired.tombstones_total;
    ApplyRetired(retired, row.head.seq);
    return true;
  }
  if (row.head.kind == RowKind::kAlias) {
    Alias alias;
    return DecodeAlias(row, alias) && index_.PutAlias(alias, row.head.seq, row.head.wall_ms);
  }
  if (row.head.kind == RowKind::kAnswered) {
    std::vector<std::uint64_t> operations;
    if (!DecodeAnswered(row, operations)) return false;
    for (const std::uint64_t mark : operations) {
      auto found = FindByOperation(mark & ~kUnreadMark);
      if (!found) return false;
      if (!*found) continue;  // an alias of before took its key away, or it is kept no longer
      (*found)->entry.is_answered = (mark & kUnreadMark) == 0;
      index_.Put((*found)->key, (*found)->entry);
    }
    return true;
  }
  if (row.head.kind == RowKind::kFlow) {
    FlowState flow;
    if (!DecodeFlow(row, flow)) return false;
    flows_.Apply(std::move(flow), clock_.Now());
    return true;
  }
  EventFront front;
  if (!DecodeEventFront(row, front)) return false;
  if (const auto news = NewsOf(row)) {
    // What was idle for long when it was written is over, as it was then.
    const Millis age(std::max<std::int64_t>(0, WallMs() - news->wall_ms));
    const MonoTime at = clock_.Now() - std::min(age, 2 * Millis(limits::kFlowIdle));
    flows_.CloseIdle(at - limits::kFlowIdle, limits::kFlowsMax, limits::kFlowsClosedAtOnce);
    flows_.Apply(*news, at);
  }
  ReplayClaim(row, front);
  const auto previous = index_.Find(front.key);
  if (!previous) return false;
  ApplyFront(front, row.head.seq, row.head.wall_ms, *previous ? &**previous : nullptr);
  if (front.phase == Phase::kDenied) {
    const auto [tool, caller] = MadeBy(row);
    NoteNo(caller, tool, front.args_hash, front.operation);
  }
  return true;
}

void ReferenceEngine::StartEpoch() {
  process_first_seq_ = head_.seq + 1;
  if (ReadRow(head_.seq, row_)) {
    const auto last = ParseRow(row_);
    went_back_before_start_ = last && last->head.wall_ms > WallMs();
  }
  ++head_.epoch;
  AppendEpochRow(batch_.bytes, NextHead(RowKind::kEpoch));
  CloseRow();
}

}  // namespace recourse
