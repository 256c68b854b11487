// The MCP writes that are being worked on, so that what would cancel one of them does not reach its
// server.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace recourse {

// One per process; thread-safe. A call is known by its client's session and JSON-RPC id. Clients
// without session share their ids, so that a cancel is held back once too often, never too seldom.
class CallsInFlight {
 public:
  // Counts one write as long as it lives.
  class Entry {
   public:
    Entry(CallsInFlight& calls, std::string name) : calls_(calls), name_(std::move(name)) {
      const std::lock_guard lock(calls_.mutex_);
      ++calls_.names_[name_].count;
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() {
      const std::lock_guard lock(calls_.mutex_);
      const auto found = calls_.names_.find(name_);
      if (--found->second.count == 0) calls_.names_.erase(found);
    }

    // No other request had its name meanwhile, so that an answer of this name is this call's.
    bool IsOnly() const {
      const std::lock_guard lock(calls_.mutex_);
      return calls_.names_.at(name_).requests == 1;
    }

   private:
    CallsInFlight& calls_;
    const std::string name_;
  };

  // A request of that name has come, be it a write or not.
  void Note(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(name);
    if (found != names_.end()) ++found->second.requests;
  }

  bool Has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return names_.contains(name);
  }

 private:
  mutable std::mutex mutex_;
  struct Name {
    int count = 0;               // of writes that run
    std::uint64_t requests = 1;  // since the first of them began
  };
  std::map<std::string, Name> names_;  // guarded by mutex_; as many as writes run
};

}  // namespace recourse
