// When each of many things is to be looked at next, and which of them is looked at now.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "proxy/base/check.h"
#include "proxy/base/clock.h"

namespace recourse {

// A key that was taken keeps its time, and is given out again only once it was put back. Every
// operation takes logarithmic time. Not thread-safe. As large as what its owner puts in.
template <class Key>
class DueQueue {
 public:
  bool Contains(const Key& key) const { return keys_.contains(key); }
  bool IsTaken(const Key& key) const {
    const auto at = keys_.find(key);
    return at != keys_.end() && at->second.is_taken;
  }
  // Puts the key in, or gives it another time.
  void Set(const Key& key, MonoTime at) {
    State& state = keys_[key];
    order_.erase({state.at, key});
    state.at = at;
    if (!state.is_taken) order_.emplace(at, key);
  }
  void Forget(const Key& key) {
    const auto at = keys_.find(key);
    if (at == keys_.end()) return;
    order_.erase({at->second.at, key});
    keys_.erase(at);
  }
  // The key that has been due for longest; nullopt: none is.
  std::optional<Key> Take(MonoTime now) {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    Key key = order_.extract(order_.begin()).value().second;
    keys_.at(key).is_taken = true;
    return key;
  }
  // What was taken may be taken again, at the time that it has by now. Does nothing if it was
  // forgotten meanwhile.
  void PutBack(const Key& key) {
    const auto at = keys_.find(key);
    if (at == keys_.end()) return;
    RC_CHECK(at->second.is_taken);
    at->second.is_taken = false;
    order_.emplace(at->second.at, key);
  }
  MonoTime TimeOf(const Key& key) const { return keys_.at(key).at; }
  // When the first of those that nobody has taken is due; nullopt: there is none.
  std::optional<MonoTime> next() const {
    return order_.empty() ? std::nullopt : std::optional(order_.begin()->first);
  }

 private:
  struct State {
    MonoTime at{};
    bool is_taken = false;
  };
  std::map<Key, State> keys_;
  std::set<std::pair<MonoTime, Key>> order_;  // of those that nobody has taken
};

}  // namespace recourse
