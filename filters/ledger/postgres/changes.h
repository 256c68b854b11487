// What a plan makes of the tables, as values: the new rows of each, beside the rows of the log.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/postgres/read_rows.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/postgres/stored.h"
#include "filters/ledger/rules/plan.h"

namespace recourse {

// Of a row of the log, for who looks for it; `key` of events only.
struct LogColumns {
  std::uint64_t id = 0;
  std::string tool{}, caller{};
  Phase phase = Phase::kNone;
  std::optional<Digest> key{};
  std::uint64_t operation = 0;
  std::uint64_t previous = 0;  // of the same operation, or flow
};
struct WorkChange {
  WorkKind kind = WorkKind::kSettle;
  std::uint64_t subject = 0;
  bool is_done = false;
};

struct Changes {
  // Rows as they are to be. Their versions are those that they follow; 0: they are new.
  std::map<Uuid, StoredOperation> operations;
  std::map<Uuid, StoredIntent> intents;
  std::map<Uuid, StoredFlow> flows;
  std::map<Uuid, std::uint64_t> opened;  // flows that begin, each with the row of its first step
  std::map<Uuid, std::int64_t> steps;    // more of flows that are there
  std::map<Uuid, std::uint64_t> marks;   // rows of effects, and operations that a human refused
  std::vector<WorkChange> work;
  std::vector<LogColumns> log;
};

// Whether who writes the row is the one who sends. A word that comes too late is remembered beside
// what another process may be sending.
inline bool Dispatches(const Event& event) {
  return event.phase == Phase::kDispatching && event.cause != Cause::kTooLate;
}

// Everything that the plans of one batch write.
class BatchWrites {
 public:
  void Add(const Changes& changes);
  // Whether something of that has been read before.
  bool Meet(const Versions& read) const;

 private:
  std::set<Uuid> operations_, intents_, flows_;
};

struct PlanNumbers {
  std::uint64_t stream = 0;
  std::uint64_t first = 0;  // id of its first row
  std::int64_t wall_ms = 0;
};
// Of the plan's rows, whose ids are set. nullopt: `rows` wishes for more.
std::optional<Changes> ChangesOf(const Plan& plan, const PlanNumbers& numbers, ReadRows& rows);

}  // namespace recourse
