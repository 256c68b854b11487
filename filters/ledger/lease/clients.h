// Whose client waits for an operation, among processes that see each other through their database
// only. An equal call is a retry of an operation only once nobody waits for that any more.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/waiting_clients.h"
#include "proxy/base/clock.h"

namespace recourse {

// A client of this process, and what its call became or joined.
struct GroupClient {
  AttemptId of;
  bool joins = false;  // the operation was there: its row does not name this process yet
  std::shared_ptr<const WaitingClients::Table> table;
};

// Operations whose rows name this process. One thread.
class OwnClients {
 public:
  void Add(GroupClient client);
  void Forget(std::uint64_t operation);
  void Clear();
  bool empty() const { return all_.empty(); }
  // What their rows are to say, but for answers: whoever has joined, and, at most every
  // kClientsLookedEvery, whose clients are gone.
  struct News {
    std::vector<AttemptId> joined, left;
  };
  News Look(MonoTime now);
  void ToldOf(std::uint64_t joined) { joined_.erase(joined); }

 private:
  struct One {
    AttemptId of;
    std::shared_ptr<const WaitingClients::Table> table;
  };
  std::map<std::uint64_t, One> all_;
  std::set<std::uint64_t> joined_;  // of all_: their rows do not say so yet
  MonoTime next_look_{};
};

// Of a stream, as its row has it.
struct StreamSign {
  bool is_live = false;
  std::uint64_t beat = 0;
  std::uint64_t base = 0;  // its rows up to that number are removed
};

// What one call that begins has seen of other processes: their rows are believed once they have
// told what had become of their clients when the call came. Pure.
class ClientsElsewhere {
 public:
  enum class Says : std::uint8_t {
    kLater,   // ask again in kClientsLookedEvery
    kNow,     // they have told: read anew what was read before this
    kWaits,   // a client of theirs, for what was read
    kIsGone,  // as is whoever waited there
    kUnsure,  // they live and say nothing
  };
  // `stream` is named by an operation that was read before it.
  Says Ask(std::uint64_t stream, const StreamSign& now, MonoTime at);

 private:
  struct Seen {
    MonoTime since{};
    std::optional<std::uint64_t> from;
    bool has_told = false;
  };
  std::map<std::uint64_t, Seen> seen_;
};

}  // namespace recourse
