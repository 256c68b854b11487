#include "filters/ledger/engine/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::string_view kCannotWrite =
    "it cannot be written; is the disk full, or --ledger-max too small?";

using Done = std::expected<void, std::string>;

std::unexpected<std::string> BadRow(std::uint64_t seq, std::string_view reason) {
  return std::unexpected(fmt::format("row {} is damaged ({}); restore the directory from a backup",
                                     PrintRowId(seq), reason));
}

// The newest rows are those a power cut can hurt; Verify checks the rest.
Done CheckTail(EventLog& log) {
  const std::uint64_t last = log.last_seq();
  const LogBase base = log.base();
  if (last < base.first_seq) return {};
  const bool is_all = last - base.first_seq < limits::kLedgerTailRows;
  const std::uint64_t first = is_all ? base.first_seq : last - limits::kLedgerTailRows;
  std::uint64_t expected = first;
  std::string_view problem;
  Digest hash = base.prev_hash;
  const auto visit = [&](std::uint64_t seq, std::string_view bytes) {
    const auto row = ParseRow(bytes);
    if (!row) {
      problem = row.error();
    } else if (seq != expected || row->head.seq != seq) {
      problem = "row number is wrong";
    } else if ((seq > first || is_all) && row->head.prev_hash != hash) {
      problem = "hash chain is broken";
    } else {
      hash = RowHash(bytes);
      ++expected;
    }
    return problem.empty();
  };
  if (!log.NewReader()->Scan(first, limits::kLedgerTailRows + 1, visit)) {
    return std::unexpected("its rows cannot be read; restore the directory from a backup");
  }
  if (!problem.empty()) return BadRow(expected, problem);
  if (expected != last + 1) return BadRow(expected, "row is missing");
  return {};
}

// Whether each row that the mark names is one of its operation, or was removed.
bool LeadsToItsRows(const IndexMark& mark, EventLog& log) {
  const auto reader = log.NewReader();
  const std::uint64_t first_seq = log.base().first_seq;
  std::string bytes;
  return std::ranges::all_of(mark.open, [&](const OpenReference& open) {
    if (open.last_event < first_seq) return true;
    if (open.last_event > mark.applied_seq || !reader->Read(open.last_event, bytes)) return false;
    const auto row = ParseRow(bytes);
    EventFront front;
    return row && DecodeEventFront(*row, front) && front.operation == open.operation;
  });
}

// The mark of the stored index, if that index belongs to this log.
std::optional<IndexMark> UsableMark(EventLog& log, ColdIndex& cold) {
  auto mark = cold.LoadMark();
  if (!mark || mark->applied_seq > log.last_seq()) return std::nullopt;
  std::string row;
  if (!log.NewReader()->Read(mark->applied_seq, row)) return std::nullopt;
  if (RowHash(row) != mark->applied_hash) return std::nullopt;
  if (!OpenFlows().Decode(mark->flows, MonoTime())) return std::nullopt;
  if (!LeadsToItsRows(*mark, log)) return std::nullopt;
  return mark;
}

// What cannot be stored stays frozen, in memory, until it can be.
Done StoreIndex(Engine& engine) {
  const Done written = engine.index().cold()->Write(*engine.index().Freeze());
  if (written) {
    engine.index().FrozenIsStored();
  } else {
    Log(LogLevel::kError, "the key index cannot be written; the start goes on without",
        {{"reason", written.error()}});
  }
  return written;
}

Done RestoreIndex(Engine& engine) {
  if (engine.index().cold() == nullptr) return {};
  if (const auto mark = UsableMark(engine.log(), *engine.index().cold())) {
    if (const auto restored = engine.replay().Restore(*mark); !restored) {
      return BadRow(restored.error(), "it cannot be read");
    }
    return {};
  }
  if (engine.log().last_seq() > 0) {
    Log(LogLevel::kWarn,
        "the key index is missing, damaged or of another log, and is built anew from the events");
    engine.index().NoteRebuilt();
  }
  return engine.index().cold()->Clear();
}

Done ReplayRows(Engine& engine) {
  const auto reader = engine.log().NewReader();
  LedgerReplay replay = engine.replay();
  Done stored;
  while (engine.head().seq < engine.log().last_seq()) {
    const std::uint64_t next = engine.head().seq + 1;
    std::string_view problem;
    const bool read =
        reader->Scan(next, limits::kScanChunkRows, [&](std::uint64_t seq, std::string_view bytes) {
          if (auto done = replay.Replay(seq, bytes); !done) {
            problem = done.error();
          }
          return problem.empty();
        });
    if (!problem.empty()) return BadRow(engine.head().seq + 1, problem);
    if (!read || engine.head().seq < next) return BadRow(next, "row cannot be read");
    if (engine.index().WantsFreeze()) stored = StoreIndex(engine);
    if (!stored && engine.index().is_full()) {
      return std::unexpected(
          fmt::format("the key index cannot be written, and is too large for memory: {}; give the "
                      "disk more room and start again",
                      stored.error()));
    }
  }
  return {};
}

// Whatever was DISPATCHING when the process ended may or may not have been sent.
Done SettleRunning(Engine& engine) {
  std::uint64_t after = 0;
  for (;;) {
    const auto open = engine.Open(after, limits::kRecoveryBatchRows);
    if (!open) return std::unexpected(std::string(open.error().detail()));
    if (open->empty()) return {};
    for (const Event& event : *open) {
      after = event.operation;
      if (event.phase != Phase::kDispatching) continue;
      if (event.is_locked) {
        Log(LogLevel::kError, "an operation that was running cannot be taken over",
            {{"operation", PrintRowId(event.operation)}, {"reason", event.detail}});
        continue;
      }
      Transition transition;
      transition.operation = event.operation;
      transition.attempt = event.attempt;
      transition.to = Phase::kUncertain;
      transition.cause = Cause::kCrash;
      transition.detail = "the process ended before the outcome was known";
      if (const auto done = engine.Record(transition); !done) {
        return std::unexpected(std::string(done.error().detail()));
      }
      RC_CRASH_POINT("k22");
    }
    if (!engine.Commit()) return std::unexpected(std::string(kCannotWrite));
    RC_CRASH_POINT("k22");
  }
}

}  // namespace

std::expected<std::unique_ptr<Engine>, std::string> StartEngine(LedgerParts parts,
                                                                const Clock& clock) {
  auto engine = std::make_unique<Engine>(std::move(parts), clock);
  if (Done done = CheckTail(engine->log()); !done) return std::unexpected(done.error());
  if (Done done = RestoreIndex(*engine); !done) return std::unexpected(done.error());
  if (Done done = ReplayRows(*engine); !done) return std::unexpected(done.error());
  engine->replay().StartEpoch();
  if (!engine->Commit()) return std::unexpected(std::string(kCannotWrite));
  if (Done done = SettleRunning(*engine); !done) return std::unexpected(done.error());
  return engine;
}

}  // namespace recourse
