// Who makes the requests of one connection, and the one at work, as the policy's `callers` names
// it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "policy/model/callers.h"
#include "proxy/base/clock.h"
#include "proxy/net/http1/message_head.h"

namespace recourse {

class RequestCaller {
 public:
  explicit RequestCaller(CallerIdentity identity)
      : identity_(std::move(identity)), name_(identity_.name) {}

  // The client has shown a certificate of that name.
  void Certify(std::string identity) {
    identity_ = {.name = std::move(identity), .of = CallerIdentity::Of::kCertificate};
    name_ = identity_.name;
  }
  // The next request: nothing is known of it yet but its connection.
  void Begin() {
    if (name_ != identity_.name) name_ = identity_.name;
    facts_.problem.clear();
  }
  // Where `callers` names any.
  void Identify(const CallersRule& rule, const Head& head, WallTime now);
  // Who it is by that rule, also if the request is judged by another one.
  Caller By(const CallersRule& rule, const Head& head, WallTime now) const;

  // As whom its calls came under earlier words of that rule.
  std::vector<Caller::Earlier> Earlier(const CallersRule& rule) const;

  const std::string& identity() const { return identity_.name; }
  const std::string& name() const { return name_; }
  const Caller& facts() const { return facts_; }
  bool is_nobody() const { return !facts_.problem.empty(); }
  // Why no write may be made; empty: the caller is known.
  std::string WhyNobody() const;

 private:
  CallerIdentity identity_;
  std::string name_;  // that identity, unless `callers` says more
  Caller facts_;      // where it does
};

}  // namespace recourse
