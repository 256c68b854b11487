#include "tests/sim/fleet_database.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace recourse::fleet_sim {

std::uint64_t Database::OpenStream() {
  StreamRow row;
  row.birth = row.end.chain = NewChain();
  row.is_held = is_restored;
  streams[++last_stream] = row;
  return last_stream;
}

Digest Database::NewChain() {
  Digest chain{};
  ++chains_;
  std::memcpy(chain.data(), &chains_, sizeof chains_);
  return chain;
}

std::optional<StreamEnd> Database::EndOf(std::uint64_t stream, const StreamEnd& asked) const {
  const auto found = streams.find(stream);
  if (found == streams.end()) return std::nullopt;
  StreamEnd end = found->second.end;
  if (without_ == Mutant::kEndByNumber && end.number == asked.number) end.chain = asked.chain;
  return end;
}

bool Database::Fits(const Batch& batch) const {
  const auto found = streams.find(batch.stream);
  if (found == streams.end() || EndOf(batch.stream, batch.before) != batch.before) return false;
  return found->second.state == 1 || without_ == Mutant::kNoFence;
}

void Database::Write(Batch& batch, std::int64_t now) {
  StreamRow& stream = streams.at(batch.stream);
  ++stream.beat;
  stream.end = batch.after;
  stream.has_open = batch.has_open;
  std::uint64_t row = batch.after.number * 100;
  for (BatchPlan& plan : batch.plans) {
    Operation& op = operations[plan.key];
    ++row;
    const bool begins = plan.kind == BatchPlan::Kind::kBegin;
    plan.has_won = begins ? Begin(plan, batch, row) : Move(plan, op);
    if (!plan.has_won) continue;
    op.phase = plan.to;
    if (plan.to == OpPhase::kUnknown) op.unknown_at = now;
    ++op.version;
  }
  written[batch.stream] = batch;
}

bool Database::Begin(BatchPlan& plan, const Batch& batch, std::uint64_t row) {
  Operation& op = operations.at(plan.key);
  const bool is_free =
      op.phase == OpPhase::kNone || op.phase == OpPhase::kNotSent || op.phase == OpPhase::kAbsent;
  const bool is_held = streams.at(batch.stream).is_held;
  if (!is_free || (is_held && without_ != Mutant::kRestoredBegins)) return false;
  if (is_restored) {
    violations.push_back(fmt::format("operation {} began in a restored ledger", plan.key));
  }
  if (op.phase == OpPhase::kNone) op.name = {batch.stream, row};
  plan.name = op.name;
  plan.attempt = ++op.attempt;
  op.owner = batch.stream;
  return true;
}

// By its name, as processes know operations.
bool Database::Move(BatchPlan& plan, Operation& op) {
  Operation* named = &op;
  if (op.name != plan.name) {
    const auto other = std::ranges::find_if(
        operations, [&](const auto& entry) { return entry.second.name == plan.name; });
    if (other == operations.end() || without_ != Mutant::kOutcomeOfAnyCall) return false;
    named = &other->second;
  }
  const OpPhase from = plan.is_own_dispatch ? OpPhase::kDispatching : OpPhase::kUnknown;
  // An answer is the truth whoever brings it, as long as the attempt is unknown.
  const bool is_late_answer = named->phase == OpPhase::kUnknown && plan.to == OpPhase::kDone;
  const bool holds = named->attempt == plan.attempt && (named->phase == from || is_late_answer);
  if (holds && named != &op) {
    violations.push_back(fmt::format("the outcome of {} is told of another call", plan.key));
  }
  return holds && named == &op;
}

std::int64_t Database::LockedUntil(std::uint64_t stream) const {
  const auto found = locked_streams_.find(stream);
  return found == locked_streams_.end() ? 0 : found->second;
}

std::int64_t Database::LockedUntil(const Batch& batch) const {
  std::int64_t until = LockedUntil(batch.stream);
  for (const BatchPlan& plan : batch.plans) {
    const auto found = locked_operations_.find(plan.key);
    if (found != locked_operations_.end()) until = std::max(until, found->second);
  }
  return until;
}

void Database::Lock(const Batch& batch, std::int64_t until) {
  locked_streams_[batch.stream] = until;
  for (const BatchPlan& plan : batch.plans) locked_operations_[plan.key] = until;
}

void Database::LockStream(const Batch& batch, std::int64_t until) {
  if (!Fits(batch)) return;
  std::int64_t& locked = locked_streams_[batch.stream];
  locked = std::max(locked, until);
}

void Database::Stop() {
  is_up = false;
  locked_streams_.clear();
  locked_operations_.clear();
  ++epoch_;
}

Result<bool> Database::TakeOverSome(std::uint64_t dead, std::uint64_t taker, const Digest& birth,
                                    std::int64_t now) {
  const auto own = streams.find(taker);
  if (!is_up || own == streams.end() || own->second.state != 1 || own->second.birth != birth ||
      LockedUntil(taker) > now) {
    return std::unexpected(Error(ErrorCode::kLedgerUnavailable, "no database"));
  }
  ++own->second.beat;
  int moved = 0;
  for (auto& [key, op] : operations) {
    if (op.owner != dead) continue;
    const bool runs = op.phase == OpPhase::kDispatching;
    if (!runs && op.phase != OpPhase::kUnknown) continue;
    const auto locked = locked_operations_.find(key);
    if (++moved > 2 || (locked != locked_operations_.end() && locked->second > now)) return false;
    if (runs) {
      op.phase = OpPhase::kUnknown;
      op.unknown_at = now;
      ++op.version;
    }
    op.owner = taker;
  }
  streams.at(dead).state = 3;
  return true;
}

std::vector<int> Database::FailOver() {
  std::vector<int> lost;
  for (const auto& [key, op] : operations) {
    const auto kept = standby_.operations.find(key);
    const bool is_same = kept != standby_.operations.end() && kept->second.name == op.name &&
                         kept->second.version == op.version;
    if (!is_same) lost.push_back(key);
  }
  static_cast<Tables&>(*this) = standby_;
  return lost;
}

void Database::NoteRestored(std::uint64_t seen) {
  is_restored = true;
  for (auto& [number, row] : streams) row.is_held = true;
  last_stream = std::max(last_stream, seen);
}

void Database::Accept() {
  is_restored = false;
  for (auto& [number, row] : streams) row.is_held = false;
}

}  // namespace recourse::fleet_sim
