// What a process has met with its database, and with the others of its group.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/news_place.h"
#include "policy/model/ledger_rules.h"
#include "proxy/base/clock.h"
#include "proxy/base/error.h"

namespace recourse {

struct SharedLedgerCounts {
  bool is_up = true;                 // the database answered when it was asked last
  std::uint64_t in_doubt = 0;        // batches whose answer was lost
  std::uint64_t fenced = 0;          // times that this process was taken for dead
  std::uint64_t second_effects = 0;  // of what it sent, after others had gone on with that
  std::uint64_t late = 0;            // verbs that happened after whoever waited was told otherwise
  std::uint64_t takeovers = 0;       // dead processes whose work it took over
  // As they were when its Stats() were asked for last:
  std::uint64_t orphaned_work = 0;                 // of the group, that no living process has
  std::uint64_t asynchronous_standbys = 0;         // of the database, where a commit awaits none
  std::map<std::string, std::uint64_t> retries{};  // batches decided anew, by SQLSTATE
};

// What one start of a process has written.
struct LedgerStream {
  std::uint64_t stream = 0;
  std::string pod, state;
  std::string policy;  // version in force there; empty: an older recourse did not say
  std::uint64_t rows = 0, running = 0;  // running: is being sent, or waits longer
  std::int64_t silent_s = 0;            // since its last batch
};

// Old rows that could not be removed.
struct KeptRows {
  bool nobody_removes = false;  // no process of the group that may has had its turn in time
  struct Behind {
    std::uint64_t row = 0;        // the first one, which stays
    std::uint64_t operation = 0;  // 0: it is about none
    std::int64_t age_s = 0;       // its
    std::uint64_t rows = 0;       // old ones of its stream, with it; counted up to 100,000
  };
  std::vector<Behind> behind{};  // of so many streams
};

// What was before its first process of this version.
struct GroupPast {
  bool has_imported = false;  // the ledger of a volume as the group's
  // Its keys are made with the install secret itself, as those of a volume and of groups of earlier
  // versions are, and not with one of its own.
  bool has_shared_secret = false;
};

// What a Ledger of many processes is, too.
class SharedLedgerView {
 public:
  virtual ~SharedLedgerView() = default;
  virtual SharedLedgerCounts SharedCounts() = 0;  // thread-safe
  // By which all of them date rows, and by which what was dated ends. Thread-safe.
  virtual const Clock& GroupClock() const = 0;
  // The pods that do each other's work.
  virtual const std::string& Group() const = 0;
  // It never changes while a ledger is open.
  virtual GroupPast Past() const = 0;
  bool HasImported() const { return Past().has_imported; }
  bool HasSharedSecret() const { return Past().has_shared_secret; }
  // Of the group, but for those that have ended and left nothing. Blocking; thread-safe.
  virtual Result<std::vector<LedgerStream>> Streams() = 0;
  // By that rule. Blocking; thread-safe.
  virtual Result<KeptRows> Kept(const LedgerRule& rule) = 0;
  // Which pod a stream of the group is, or was, of; empty: that cannot be told. Blocking;
  // thread-safe.
  virtual std::string PodOf(std::uint64_t stream) = 0;

  // Policies that processes of the group have, for those who do the work of others. Blocking;
  // thread-safe. This one has that version, whose files are in `packed`, and will take it into
  // force: until PolicyInForce() the others know it beside the one that is. Fails with a line for
  // people.
  virtual std::expected<void, std::string> SharePolicy(const std::string& version,
                                                       std::string_view packed) = 0;
  // That one is, and no other will be. What fails is said again by PoliciesOfGroup().
  virtual std::expected<void, std::string> PolicyInForce(const std::string& version) = 0;
  // What SharePolicy() was given, by whomever; nullopt: nothing.
  virtual Result<std::optional<std::string>> SharedPolicy(const std::string& version) = 0;
  // The versions that the other processes that live have in force, or will; and those of the ones
  // that began last.
  struct Versions {
    std::vector<std::string> in_force{}, recent{};
  };
  virtual Result<Versions> PoliciesOfGroup() = 0;

  // Where the log ends now, and what is asked for of what came after a place, a page at most:
  // whoever goes on from `to` each time is told of each row once. Blocking; thread-safe.
  struct News {
    EventPage page{};  // of each stream in order
    NewsPlace to{};
    bool more = false;       // there is, after `to`
    bool is_behind = false;  // so much came that the page is empty: ask anew
  };
  virtual Result<NewsPlace> NewsEnd() = 0;
  virtual Result<News> NewsAfter(const NewsPlace& place, const EventFilter& filter) = 0;
};

}  // namespace recourse
