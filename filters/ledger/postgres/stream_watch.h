// The thread that watches the group's processes, and takes over what dead ones have left.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "filters/ledger/lease/stream_keeper.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/model/operator_action.h"
#include "filters/ledger/postgres/connection.h"
#include "proxy/base/clock.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/random.h"

namespace recourse {

// The streams of a group as the database has them, and what a dead one has left, moved. Over a
// connection of its own; one thread; blocks.
class PgStreamTable final : public StreamTable {
 public:
  struct Parts {
    PgOptions connection;
    std::string group;
    std::uint64_t own = 0;  // stream of this process
    // Makes them durable under that stream, and waits for it. One that came too late, as the
    // operation has moved on, is no failure.
    std::function<Result<void>(std::vector<Transition>)> record;
    // The last row of this process that was acknowledged; thread-safe. And what happens where the
    // database seems not to have it: it went back to an older state.
    struct LastRow {
      std::uint64_t id = 0;
      Digest hash{};
      bool operator==(const LastRow&) const = default;
    };
    std::function<LastRow()> acknowledged{};
    std::function<void()> behind{};
    std::function<bool()> has_said_taking{};  // unset: as if it had
    // Unset, or makes it durable under the stream of this process.
    std::function<Result<void>(const OperatorOrder&)> note{};
    std::string pod{};      // of this process
    bool observes = false;  // it takes over what was observed alone
  };
  explicit PgStreamTable(Parts parts) : parts_(std::move(parts)) {}

  bool HasSaidTaking() const override {
    return !parts_.has_said_taking || parts_.has_said_taking();
  }
  Result<Listed> List() override;
  Result<std::vector<Watch::Beat>> Beats(std::span<const std::uint64_t> streams) override;
  Result<void> TellWentBack(Watch::Silent seen) override;
  Result<bool> Declare(Watch::Silent silent) override;
  Result<bool> Adopt(Abandoned abandoned) override;
  Result<bool> TakeOverSome(std::uint64_t stream) override;

 private:
  // A beat, and how many answers in turn have told of it.
  struct Seen {
    std::uint64_t beat = 0;
    int times = 0;
  };
  using SeenStreams = std::map<std::uint64_t, Seen>;
  static bool IsUnchanged(const std::pair<const std::uint64_t, Seen>& one);
  static SeenStreams SeenAfter(const SeenStreams& before, std::span<const Watch::Beat> beats);
  // `proves`: it is answered only by a database that also confirms what is written.
  Result<PgRows> Ask(const PgStatement& statement, const PgArguments& arguments,
                     bool proves = false);
  Result<bool> LeaveSealed(std::uint64_t stream);
  Result<void> TellEnd(std::uint64_t stream, std::size_t waiting);

  const Parts parts_;
  std::map<std::uint64_t, std::size_t> unknown_;  // calls, by the dead stream
  std::map<std::uint64_t, int> left_;             // streams that were, and for how many lists
  SeenStreams listed_, watched_;                  // by stream, of the newest answers
  std::unique_ptr<PgConnection> connection_;
};

class PgStreamWatch {
 public:
  struct Parts {
    PgStreamTable::Parts table;  // but for its own stream
    // Stream of this process; 0: it has none. Thread-safe.
    std::function<std::uint64_t()> own;
    // Whether something is being taken over.
    std::function<void(bool)> taking;
    // Unset, or: something of a dead process has become this one's work; on the thread of the
    // watch.
    std::function<void()> took;
    // Verbs that happened after whoever waited for them was told otherwise: each may leave
    // something to do, as if it had been taken over. Unset: none ever does.
    std::function<std::uint64_t()> late{};
    const Clock& clock;
  };
  explicit PgStreamWatch(Parts parts) : parts_(std::move(parts)) {}
  PgStreamWatch(const PgStreamWatch&) = delete;
  PgStreamWatch& operator=(const PgStreamWatch&) = delete;
  ~PgStreamWatch();

  void Start();
  std::uint64_t takeovers() const { return takeovers_; }  // thread-safe

 private:
  void Run();
  bool WaitUntil(MonoTime when);

  const Parts parts_;
  std::atomic<std::uint64_t> takeovers_ = 0;
  std::uint64_t late_told_ = 0;  // of the thread
  SystemRandom random_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace recourse
