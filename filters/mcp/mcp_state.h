// What a process remembers, in memory, of the MCP calls that pass it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "filters/mcp/tool_catalog.h"
#include "proxy/base/message_limits.h"

namespace recourse {

// The writes that are being worked on, so that what would cancel one of them does not reach its
// server.
//
// Thread-safe. A call is known by its client's session and JSON-RPC id. Clients
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

// Writes whose outcome is not known, by their client's session and JSON-RPC id: the client may
// still fetch the answer by itself. Bounded: the oldest is forgotten first. Thread-safe.
class LateCalls {
 public:
  struct Call {
    std::string name;
    std::uint64_t operation = 0;
    std::uint16_t attempt = 0;
  };

  void Add(Call call) {
    const std::lock_guard lock(mutex_);
    if (calls_.size() >= limits::kLateCallsMax) calls_.pop_front();
    calls_.push_back(std::move(call));
  }

  // A request of that name is made again: its answer would be taken for that of the call.
  void Forget(const std::string& name) {
    const std::lock_guard lock(mutex_);
    std::erase_if(calls_, [&](const Call& call) { return call.name == name; });
  }

  // The one call of that name; its `operation` is 0 when there is none, or more than one.
  Call Only(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto is_it = [&](const Call& call) { return call.name == name; };
    const auto found = std::ranges::find_if(calls_, is_it);
    if (found == calls_.end() || std::ranges::count_if(calls_, is_it) != 1) return {};
    return *found;
  }

  bool empty() const {
    const std::lock_guard lock(mutex_);
    return calls_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Call> calls_;  // guarded by mutex_
};

// Thread-safe, as its parts are.
struct McpState {
  ToolCatalog tools;
  CallsInFlight calls;
  LateCalls late;
};

}  // namespace recourse
