// The MCP writes that are being worked on, so that what would cancel one of them does not reach its
// server (agents.md 6.9).
#pragma once

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
      ++calls_.names_[name_];
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() {
      const std::lock_guard lock(calls_.mutex_);
      const auto found = calls_.names_.find(name_);
      if (--found->second == 0) calls_.names_.erase(found);
    }

   private:
    CallsInFlight& calls_;
    const std::string name_;
  };

  bool Has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return names_.contains(name);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> names_;  // guarded by mutex_; as many as writes run
};

}  // namespace recourse
