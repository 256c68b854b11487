// How many requests of the worker that undoes go to one backend at once, and at which rate.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "filters/saga/flow_table.h"
#include "policy/model/policy.h"
#include "proxy/base/clock.h"

namespace recourse {

class BackendShare {
 public:
  // `freed` is called when a flow that waited for its turn is due.
  BackendShare(FlowTable& table, const Clock& clock, std::function<void()> freed)
      : table_(table), clock_(clock), freed_(std::move(freed)) {}

  // Whether a request may go to that backend now: its rate, and its share of what is under way. If
  // not, the flow is due when it may. Each true is followed by Leave.
  bool Enter(std::uint64_t number, const std::string& backend, const Policy& policy);
  // The same for a request that has a rate of its own, and that nobody waits to send.
  bool EnterApart(const std::string& backend);
  void Leave(const std::string& backend);

 private:
  // Requests to one backend.
  struct Lane {
    MonoTime next;                    // earliest time of the next one
    std::size_t sending = 0;          // under way
    std::set<std::uint64_t> waiting;  // flows that want to send once one of those has ended
  };

  FlowTable& table_;
  const Clock& clock_;
  const std::function<void()> freed_;
  std::map<std::string, Lane> lanes_;  // by backend
};

}  // namespace recourse
