// What a process remembers, in memory, of the MCP calls that pass it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "filters/mcp/tool_catalog.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/message_limits.h"
#include "proxy/mcp/calls_in_flight.h"

namespace recourse {

// Writes whose outcome is not known, by their client's session and JSON-RPC id: the client may
// still fetch the answer by itself. Bounded: the oldest is forgotten first. Thread-safe.
class LateCalls {
 public:
  struct Call {
    std::string name;
    std::uint64_t operation = 0;
    std::uint16_t attempt = 0;
    Digest key{};  // of the operation
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
