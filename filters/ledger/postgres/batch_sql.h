// The statements of a batch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/postgres/changes.h"
#include "filters/ledger/postgres/connection.h"

namespace recourse {

struct PlannedRows;

inline constexpr PgStatement kPgRollback{"rollback", "ROLLBACK"};
inline constexpr PgStatement kPgCommit{"commit", "COMMIT"};
inline constexpr PgStatement kPgNow{
    "now_ms", "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"};
inline constexpr PgStatement kPgHead{
    "head",
    "UPDATE stream SET head = $2::bigint, chain = $3::bytea, low = $4::bigint, open = $5::bigint"
    " WHERE stream = $1::bigint"};

// Of a process, whose rows are its group's.
struct PgStreamEnd {
  std::uint64_t stream = 0, head = 0;
  std::uint64_t beat = 0;  // raised by each batch, and by who makes sure that one never happens
  Digest chain{};          // of the last row
  std::string_view group;
};
// The first round: begins a transaction that holds the stream and what was read, in one order for
// all streams.
void QueuePgLocks(PgConnection& connection, const PgStreamEnd& own, const Versions& read);
struct PgLocks {
  std::uint64_t place = 0;  // of the batch's first row
  bool is_held = false;     // the stream begins nothing
  std::map<Uuid, std::int64_t> operations, intents;
  struct Flow {
    std::int64_t version = 0, steps = 0;
  };
  std::map<Uuid, Flow> flows;

  // Whether everything is still there that the plan stands on.
  bool Hold(const PlannedRows& planned) const;
};
// nullopt: the stream is not this process's any more.
std::optional<PgLocks> TakePgLocks(const std::vector<PgRows>& rows);

// A batch that is sent whole: it happens if its stream is still this process's, and if everything
// is there that its plans stand on.
struct PgFence {
  PgStreamEnd old{};
  std::uint64_t head = 0, low = 0, open = 0;
  Digest chain{};
  bool begins = false;  // a call, which a stream that is held does not
};
struct PgReadAndMade {
  Versions read;
  std::set<Uuid> operations, intents, flows;  // rows that the plans write
  std::set<Uuid> moved;                       // flows that they move
};
PgReadAndMade PgReadAndMadeOf(const std::vector<PlannedRows>& plans);
// The first of the answers has the place of the batch's first row in its second column.
void QueuePgFence(PgConnection& connection, const PgFence& fence, const PgReadAndMade& all);

// Gathers what the plans change, and writes it with one statement a table.
class PgBatchWriter {
 public:
  // `head`: the number of the last row before.
  PgBatchWriter(std::uint64_t stream, std::string_view group, std::uint64_t head);
  void Add(const Changes& changes);
  void AddRow(std::uint64_t id, std::string_view bytes, const LogColumns* columns);
  // Once.
  void Queue(PgConnection& connection);

 private:
  // Columns of one statement, each an array.
  class Columns {
   public:
    explicit Columns(std::vector<PgArray::Of> types);
    PgArray& operator[](std::size_t column) { return arrays_[column]; }
    // `behind`: an argument after them; null: none.
    void QueueIfAny(PgConnection& connection, const PgStatement& statement, PgArguments before = {},
                    const std::string* behind = nullptr) const;

   private:
    std::vector<PgArray> arrays_;
  };

  std::int64_t Behind(std::uint64_t id) const;  // the head
  void AddOperation(const Uuid& key, const StoredOperation& row);
  void AddFlow(const Uuid& key, const StoredFlow& row, const Changes& changes);
  void AddWork(const WorkChange& change);

  const std::uint64_t stream_;
  const std::string group_;
  const std::uint64_t head_;
  std::map<Uuid, std::uint64_t> marks_rows_;
  std::map<Uuid, std::int64_t> more_steps_;
  Columns new_operations_, operations_, new_intents_, intents_, marks_, new_flows_, flows_, steps_,
      work_, done_work_, events_;
};

}  // namespace recourse
