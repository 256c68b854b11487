// The database of a simulated fleet: streams and operations, one batch after the other, and what
// the backend has seen.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "filters/ledger/lease/stream_keeper.h"

namespace recourse::fleet_sim {

enum class OpPhase : std::uint8_t { kNone, kDispatching, kUnknown, kDone, kNotSent, kAbsent };

struct Operation {
  OpPhase phase = OpPhase::kNone;
  int attempt = 0;
  std::uint64_t version = 0;
  std::uint64_t owner = 0;  // stream
  std::int64_t unknown_at = 0;
};

struct StreamRow {
  int state = 1;  // 2: declared dead, 3: taken over
  std::uint64_t beat = 0, head = 0, taken_by = 0;
  bool has_open = false;
};

// One verb. A begin needs an operation that has no effect; all others what they have seen.
struct BatchPlan {
  enum class Kind : std::uint8_t { kBegin, kMove } kind = Kind::kBegin;
  int key = 0;
  OpPhase to = OpPhase::kDispatching;
  int attempt = 0;
  bool is_own_dispatch = false;  // a move from DISPATCHING, else one from unknown
  bool has_won = false;          // the database's answer
};

struct Batch {
  std::uint64_t stream = 0, head = 0;
  std::vector<BatchPlan> plans;
  bool has_open = false;
};

class Database {
 public:
  enum class Answer : std::uint8_t { kWritten, kWrittenBefore, kFenced };

  std::uint64_t OpenStream();
  Answer Write(Batch& batch, std::int64_t now);
  // Some of what a dead stream has left, over the taker's stream. True: nothing is left.
  Result<bool> TakeOverSome(std::uint64_t dead, std::uint64_t taker, std::int64_t now);

  std::map<std::uint64_t, StreamRow> streams;
  std::map<int, Operation> operations;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Batch> written;  // by stream and head
  bool is_up = true;
  int takeovers = 0;  // declared
};

}  // namespace recourse::fleet_sim
