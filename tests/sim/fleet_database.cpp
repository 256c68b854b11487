#include "tests/sim/fleet_database.h"

namespace recourse::fleet_sim {

std::uint64_t Database::OpenStream() {
  const std::uint64_t number = streams.size() + 1;
  streams[number] = {};
  return number;
}

Database::Answer Database::Write(Batch& batch, std::int64_t now) {
  StreamRow& stream = streams.at(batch.stream);
  if (stream.head != batch.head) {
    batch = written.at({batch.stream, batch.head});
    return Answer::kWrittenBefore;
  }
  if (stream.state != 1) return Answer::kFenced;
  ++stream.beat;
  ++stream.head;
  stream.has_open = batch.has_open;
  for (BatchPlan& plan : batch.plans) {
    Operation& op = operations[plan.key];
    if (plan.kind == BatchPlan::Kind::kBegin) {
      plan.has_won = op.phase == OpPhase::kNone || op.phase == OpPhase::kNotSent ||
                     op.phase == OpPhase::kAbsent;
      if (!plan.has_won) continue;
      ++op.attempt;
      plan.attempt = op.attempt;
      op.owner = batch.stream;
    } else {
      const OpPhase from = plan.is_own_dispatch ? OpPhase::kDispatching : OpPhase::kUnknown;
      // An answer is the truth whoever brings it, as long as the attempt is unknown.
      const bool is_late_answer = op.phase == OpPhase::kUnknown && plan.to == OpPhase::kDone;
      plan.has_won = op.attempt == plan.attempt && (op.phase == from || is_late_answer);
      if (!plan.has_won) continue;
    }
    op.phase = plan.to;
    if (plan.to == OpPhase::kUnknown) op.unknown_at = now;
    ++op.version;
  }
  written[{batch.stream, batch.head}] = batch;
  return Answer::kWritten;
}

Result<bool> Database::TakeOverSome(std::uint64_t dead, std::uint64_t taker, std::int64_t now) {
  StreamRow& own = streams.at(taker);
  if (!is_up || own.state != 1) {
    return std::unexpected(Error(ErrorCode::kLedgerUnavailable, "no database"));
  }
  ++own.beat;
  own.has_open = true;
  int moved = 0;
  for (auto& [key, op] : operations) {
    if (op.owner != dead) continue;
    const bool runs = op.phase == OpPhase::kDispatching;
    if (!runs && op.phase != OpPhase::kUnknown) continue;
    if (++moved > 2) return false;
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

}  // namespace recourse::fleet_sim
