// What operators ask of a ledger in PostgreSQL, over a connection of its own. Thread-safe; blocks.
#pragma once

#include <atomic>
#include <expected>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/rows/event_log.h"

namespace recourse {

class PgReader {
 public:
  // `patience`: no question waits longer than that for a connection, or for others' questions; for
  // a while after a silence none waits at all. Unset: each waits as long as it takes.
  explicit PgReader(PgOptions options, std::optional<Millis> patience = {})
      : options_(std::move(options)), patience_(patience) {}

  // Once more over a new connection, where the one at hand was lost. Fails with a line for people.
  std::expected<std::vector<PgRows>, std::string> Ask(const PgStatement& statement,
                                                      const PgArguments& arguments);
  // That the database does not answer, or what it refuses; of what failed last. Empty: nothing has.
  std::string failure();

 private:
  using Opened = std::expected<std::unique_ptr<PgConnection>, Unopened>;

  struct Unanswered {
    std::string why{};
    bool is_refused = false;  // it does answer
  };
  std::expected<std::vector<PgRows>, Unanswered> TryToAsk(const PgStatement& statement,
                                                          const PgArguments& arguments);
  std::expected<void, std::string> Connect();
  std::unexpected<std::string> Fail(Unanswered failed);

  const PgOptions options_;
  const std::optional<Millis> patience_;
  std::timed_mutex mutex_;
  std::unique_ptr<PgConnection> connection_;  // guarded by mutex_
  std::future<Opened> opening_;               // guarded by mutex_
  std::atomic<MonoTime> silent_until_{MonoTime()};
  std::mutex failure_mutex_;
  std::string failure_;  // guarded by failure_mutex_
};

// All that is asked about one log. Thread-safe.
class PgLook {
 public:
  explicit PgLook(PgReader& reader) : reader_(reader) {}
  std::expected<std::vector<PgRows>, std::string> Ask(const PgStatement& statement,
                                                      const PgArguments& arguments);
  void NoteAway() { is_away_ = true; }
  // Something of it was not answered, and what seems not to be there may well be.
  bool is_away() const { return is_away_; }

 private:
  PgReader& reader_;
  std::atomic<bool> is_away_ = false;
};

// Rows by their ids, of one stream or, with 0, of all one after the other; read only. Named by its
// number a row is there only if it is of the group, if one is given.
class PgEventLog : public EventLog {
 public:
  PgEventLog(PgReader& reader, std::uint64_t stream, std::optional<std::string> group = {})
      : look_(reader), stream_(stream), group_(std::move(group)) {}

  std::expected<void, AppendError> Append(const RowBatch& batch) override;
  std::unique_ptr<Reader> NewReader() override;
  std::uint64_t last_seq() override;
  LogBase base() override;
  std::string LoadAges() override { return {}; }
  LogSizes sizes() override { return {}; }
  LogSpace Space(std::uint64_t need) override { return {need, 0}; }
  std::optional<Error> away() const override;

 protected:
  PgLook& look() { return look_; }

 private:
  PgLook look_;
  const std::uint64_t stream_;
  const std::optional<std::string> group_;
};

}  // namespace recourse
