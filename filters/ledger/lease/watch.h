// Which streams of its group a process watches, and which of them are dead. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "proxy/base/clock.h"

namespace recourse {

// A ring of stream numbers, from the one after `own` on, without it.
std::vector<std::uint64_t> SuccessorsInRing(std::uint64_t own, std::vector<std::uint64_t> streams);

// How long a list of a group's open streams serves a process; `processes` are in the group.
// `is_open`: some of them have something open, and one may die with it any moment.
Millis ListEvery(std::size_t processes, bool is_open);

// How long to wait before the database is tried again, after so many failures in a row. `jitter` is
// uniformly random.
Millis ReconnectPause(int failures, std::uint32_t jitter);

// One process's look at its successors. Silence counts only while it reads them all the time: who
// could not be read may have had no database to write into.
class Watch {
 public:
  // What a query says of one stream.
  struct Beat {
    std::uint64_t stream = 0;
    std::uint64_t beat = 0;
    bool has_open = false;  // one with nothing open is silent, and nobody's loss
  };
  // Of a dead stream: the declaration holds only if it still has this beat.
  struct Silent {
    std::uint64_t stream = 0;
    std::uint64_t beat = 0;
    bool operator==(const Silent&) const = default;
  };

  explicit Watch(std::uint64_t own) : own_(own) {}

  // The open streams of the group as a query that was sent at `asked` and answered at `answered`
  // has them, in any order; of others nothing is known any more. Gives those that are dead before
  // the third one in the ring that lives: however many have died at once, each is found by the
  // three that live before it. They are told again with each further query; at most
  // kDeclaredAtOnceMax.
  std::vector<Silent> List(MonoTime asked, MonoTime answered, std::span<const Beat> streams);
  // The next kWatchedMax ones of the ring, which are to be read between two lists, too.
  std::vector<std::uint64_t> watched() const;
  // What a query said of those.
  std::vector<Silent> Read(MonoTime asked, MonoTime answered, std::span<const Beat> beats);
  // A query was not answered: what was silent until now may have had no database either.
  void Failed();
  // A beat that was seen, and behind which its stream has gone since, as no process goes: the
  // database was put back to an older state. Once for each answer that shows it.
  std::optional<Silent> TakeWentBack() { return std::exchange(went_back_, std::nullopt); }

 private:
  struct Seen {
    std::uint64_t beat = 0;
    // The answer that brought the beat, and the newest one; MonoTime{}: none yet.
    MonoTime since{}, read{};
  };

  const std::uint64_t own_;
  std::vector<std::uint64_t> ring_;
  std::map<std::uint64_t, Seen> seen_;  // by stream of the ring
  std::optional<Silent> went_back_;
};

}  // namespace recourse
