// The database of a simulated fleet: streams and operations, one batch after the other, the locks
// of those that take their time, and a standby that is behind.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "filters/ledger/lease/stream_end.h"
#include "filters/ledger/lease/stream_keeper.h"

namespace recourse::fleet_sim {

// A rule that is left out, so that its loss is noticed.
enum class Mutant : std::uint8_t {
  kNone,
  kNoWatchdog,
  kLeaseFromLastSending,  // of a batch that was sent again
  kEndIgnored,            // nobody looks whether its last row is still there
  kEndByNumber,           // nor whose it is
  kRestoredBegins,
  kOutcomeOfAnyCall,  // that has the name, which another one may have by now
  kCutIsNotSent,      // whose connection was lost after sending
  kKernelKeepsBytes,  // for as long as a backend is cut off
  kNoFence,           // who is dead may write
  kTakerSaysNothing,  // before it takes somebody over
};

enum class OpPhase : std::uint8_t { kNone, kDispatching, kUnknown, kDone, kNotSent, kAbsent };

// Of the row that began it.
struct OpName {
  std::uint64_t stream = 0, number = 0;
  bool operator==(const OpName&) const = default;
};

struct Operation {
  OpPhase phase = OpPhase::kNone;
  int attempt = 0;
  std::uint64_t version = 0;
  std::uint64_t owner = 0;  // stream
  OpName name;
  std::int64_t unknown_at = 0;
};

struct StreamRow {
  int state = 1;  // 2: declared dead, 3: taken over
  std::uint64_t beat = 0, taken_by = 0;
  StreamEnd end;
  Digest birth{};  // of its first row
  bool has_open = false;
  bool is_held = false;  // begins nothing: the ledger is restored
};

// One verb. A begin needs an operation that has no effect; all others what they have seen.
struct BatchPlan {
  enum class Kind : std::uint8_t { kBegin, kMove } kind = Kind::kBegin;
  int key = 0;
  OpPhase to = OpPhase::kDispatching;
  int attempt = 0;
  OpName name{};                 // a begin's is the database's answer
  bool is_own_dispatch = false;  // a move from DISPATCHING, else one from unknown
  bool has_won = false;          // the database's answer
};

struct Batch {
  std::uint64_t stream = 0;
  StreamEnd before, after;
  std::vector<BatchPlan> plans;
  bool has_open = false;
};

struct Tables {
  std::map<std::uint64_t, StreamRow> streams;
  std::map<int, Operation> operations;
  std::map<std::uint64_t, Batch> written;  // the last one of each stream
  std::uint64_t last_stream = 0;           // number
  bool is_restored = false;
};

class Database : public Tables {
 public:
  explicit Database(Mutant without) : without_(without) {}

  std::uint64_t OpenStream();
  Digest NewChain();
  std::optional<StreamEnd> EndOf(std::uint64_t stream, const StreamEnd& asked) const;
  // Whether the batch is its stream's next one.
  bool Fits(const Batch& batch) const;
  void Write(Batch& batch, std::int64_t now);
  // Rows that a batch touches, until it is written.
  std::int64_t LockedUntil(const Batch& batch) const;
  std::int64_t LockedUntil(std::uint64_t stream) const;
  void Lock(const Batch& batch, std::int64_t until);
  // Its own row alone: it waits for others, and nobody is first meanwhile.
  void LockStream(const Batch& batch, std::int64_t until);
  void Stop();  // until it is up again; nothing that is not committed stays
  // Some of what a dead stream has left, over the taker's stream. True: nothing is left.
  Result<bool> TakeOverSome(std::uint64_t dead, std::uint64_t taker, const Digest& birth,
                            std::int64_t now);

  void Replicate() { standby_ = *this; }
  // To the standby. Gives the keys of what was lost.
  std::vector<int> FailOver();
  // `seen`: a number of a stream that somebody knows.
  void NoteRestored(std::uint64_t seen);
  void Accept();
  std::uint64_t epoch() const { return epoch_; }

  bool is_up = true;
  int takeovers = 0;                    // declared
  std::vector<std::string> violations;  // of batches

 private:
  bool Begin(BatchPlan& plan, const Batch& batch, std::uint64_t row);
  bool Move(BatchPlan& plan, Operation& op);

  const Mutant without_;
  Tables standby_;
  std::uint64_t epoch_ = 0, chains_ = 0;
  std::map<std::uint64_t, std::int64_t> locked_streams_;
  std::map<int, std::int64_t> locked_operations_;
};

}  // namespace recourse::fleet_sim
