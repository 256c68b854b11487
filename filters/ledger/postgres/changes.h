// What a plan makes of the tables, as values: the new rows of each, beside the rows of the log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
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

// What waits longer than a call and is this process's to do: as far as it knows, as another one may
// have taken some of that since. One thread.
class PgOwnWork {
 public:
  using Name = std::pair<WorkKind, std::uint64_t>;
  // Of one batch: whether it is done with that, or made.
  using Changed = std::map<Name, bool>;

  static void Add(const std::vector<WorkChange>& changes, Changed& to) {
    for (const WorkChange& change : changes) {
      bool& is_done = to.try_emplace({change.kind, change.subject}, true).first->second;
      is_done = is_done && change.is_done;
    }
  }
  std::size_t size() const { return all_.size(); }
  std::size_t SizeAfter(const Changed& changed) const {
    std::size_t size = all_.size();
    for (const auto& [name, is_done] : changed) {
      const bool is_known = all_.contains(name);
      if (is_done && is_known) --size;
      if (!is_done && !is_known) ++size;
    }
    return size;
  }
  void Apply(const Changed& changed) {
    for (const auto& [name, is_done] : changed) {
      if (is_done) {
        all_.erase(name);
      } else {
        all_.insert(name);
      }
    }
  }
  void Become(std::set<Name> all) { all_ = std::move(all); }

 private:
  std::set<Name> all_;
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
  bool has_waiter = false;  // a client of the stream waits for what it sends
};
// Of the plan's rows, whose ids are set. nullopt: `rows` wishes for more.
std::optional<Changes> ChangesOf(const Plan& plan, const PlanNumbers& numbers, ReadRows& rows);

}  // namespace recourse
