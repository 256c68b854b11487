// Takes over what dead processes of the group have left: watches, declares, and carries a take-over
// to its end, its own or one whose taker has died in the middle of it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "filters/ledger/lease/watch.h"
#include "proxy/base/clock.h"
#include "proxy/base/error.h"
#include "proxy/base/random.h"

namespace recourse {

// The streams of a group, as the database has them. Every call is one round trip.
class StreamTable {
 public:
  // A stream that was declared dead, and whose taker is this process or lives no more.
  struct Abandoned {
    std::uint64_t stream = 0;
    std::uint64_t taken_by = 0;
  };
  struct Listed {
    std::vector<Watch::Beat> open;  // alive, with something open
    std::vector<Abandoned> abandoned;
    std::size_t processes = 0;  // alive
  };

  virtual ~StreamTable() = default;
  // Whether the database knows that this process is taking something over. Until then nothing is
  // its own to take: nobody would look after that when it dies.
  virtual bool HasSaidTaking() const = 0;
  virtual Result<Listed> List() = 0;
  virtual Result<std::vector<Watch::Beat>> Beats(std::span<const std::uint64_t> streams) = 0;
  // The stream had this beat: unless it has it again, the ledger is marked as restored.
  virtual Result<void> TellWentBack(Watch::Silent seen) = 0;
  // Compared and set: false where the stream has another beat by now, or another taker. From true
  // on no batch of the stream is written, and it is this process's to take over.
  virtual Result<bool> Declare(Watch::Silent silent) = 0;
  virtual Result<bool> Adopt(Abandoned abandoned) = 0;
  // Moves some of what the stream has left; all of that may be repeated. True: nothing is left.
  virtual Result<bool> TakeOverSome(std::uint64_t stream) = 0;
};

// One thread.
class StreamKeeper {
 public:
  // `own` is the stream of this process. All outlive the keeper.
  StreamKeeper(std::uint64_t own, StreamTable& table, const Clock& clock, Random& random)
      : watch_(own), table_(table), clock_(clock), random_(random) {}

  // Asks the database at most once. Gives the time of the next step.
  MonoTime Step();
  // Another stream of this process, whose lock was held until just now, or which was handed over.
  void TakeOver(std::uint64_t stream) { taking_.push_back(stream); }
  // While it is, or is about to, this process has something open, and is watched.
  bool is_taking() const { return !taking_.empty() || has_found() || is_in_doubt_; }
  std::uint64_t takeovers() const { return takeovers_; }

 private:
  bool has_found() const { return !silent_.empty() || !abandoned_.empty(); }
  bool TellWentBack();
  bool TakeOverNext();
  bool DeclareNext();
  bool AdoptNext();
  bool List();
  bool ReadBeats();
  MonoTime After(bool succeeded, MonoTime next);

  Watch watch_;
  StreamTable& table_;
  const Clock& clock_;
  Random& random_;
  std::deque<std::uint64_t> taking_;
  std::optional<Watch::Silent> went_back_;
  std::deque<Watch::Silent> silent_;
  std::deque<StreamTable::Abandoned> abandoned_;
  bool is_in_doubt_ = false;  // something may have been taken, and a list will show it
  MonoTime list_due_{}, read_due_{};
  int failures_ = 0;
  std::uint64_t takeovers_ = 0;
};

}  // namespace recourse
