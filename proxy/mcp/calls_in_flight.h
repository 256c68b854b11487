// The MCP calls that a process works on, and what a client's cancellation of one means for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/waiting_clients.h"
#include "policy/model/principal.h"
#include "proxy/base/clock.h"

namespace recourse {

// The client of one call. It may give that up while its connection lasts, and counts as gone then,
// as one that broke its connection off.
class CallClient final : public ClientLink {
 public:
  // `link` outlives it.
  explicit CallClient(const ClientLink& link) : link_(link) {}

  bool HasLeft() const override { return has_given_up() || link_.HasLeft(); }
  bool MayHaveLeft() const override { return has_given_up() || link_.MayHaveLeft(); }
  bool has_given_up() const { return has_given_up_.load(std::memory_order_acquire); }
  void GiveUp() { has_given_up_.store(true, std::memory_order_release); }

 private:
  const ClientLink& link_;
  std::atomic<bool> has_given_up_ = false;
};

// The same where its cancellation may come to another process, which does not know the call: nobody
// can tell whether it waits.
class UnheardClient final : public ClientLink {
 public:
  explicit UnheardClient(const ClientLink& link) : link_(link) {}
  bool HasLeft() const override { return link_.HasLeft(); }
  bool MayHaveLeft() const override { return true; }

 private:
  const ClientLink& link_;
};

// Thread-safe. A call is known by its client's session and JSON-RPC id; whoever proves another
// principal cancels none of it. Bounded by the calls at work, and limits::kLateCallsMax answers.
class CallsInFlight {
 public:
  struct Name {
    std::string text;                    // NameOfCall
    Principal principal = kNoPrincipal;  // of a write, and of a cancellation
  };

  // A write, as long as this object lives.
  class Write {
   public:
    // `content`: what is equal in a call and its repeats; empty: nothing is. All outlive it.
    Write(CallsInFlight& calls, Name name, std::string content, CallClient& client);
    Write(const Write&) = delete;
    Write& operator=(const Write&) = delete;
    ~Write();

    // No other request had its name meanwhile, so that an answer of this name is this call's.
    bool IsOnly() const;
    // Whether the client of an equal call waits for it.
    bool HasTwin() const;
    // Its client has the answer, as far as its connection tells: calls `mark`. False: it has given
    // the call up, and heeds no answer.
    bool Answered(AttemptId answered, MonoTime now, const std::function<void()>& mark);

   private:
    friend class CallsInFlight;
    CallsInFlight& calls_;
    const Name name_;
    const std::string content_;
    CallClient& client_;
    bool is_answered_ = false;
  };

  // A read, as long as this object lives. Empty: nobody can name it.
  class Read {
   public:
    Read(CallsInFlight& calls, std::string name);
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;
    ~Read();

   private:
    CallsInFlight& calls_;
    const std::string name_;
  };

  // A request of that name has come, be it a write or not.
  void Note(const std::string& name);

  struct Canceled {
    bool is_read = false;           // certainly: no write has the name
    std::vector<AttemptId> unread;  // answers that went out when their client heeded them no more
  };
  // The clients of all writes of that name are gone.
  Canceled Cancel(const Name& name, MonoTime now);

 private:
  struct Entry {
    std::vector<Write*> writes;
    int reads = 0;
    std::uint64_t requests = 1;  // since the first of them began
  };
  struct Answer {
    Name name;
    AttemptId attempt;
    MonoTime since;
  };

  Entry& At(const std::string& name);
  void Drop(const std::string& name);

  mutable std::mutex mutex_;
  std::map<std::string, Entry> names_;              // guarded by mutex_
  std::multimap<std::string, const Write*> equal_;  // by content; guarded by mutex_
  std::deque<Answer> answers_;                      // of late; guarded by mutex_
};

}  // namespace recourse
