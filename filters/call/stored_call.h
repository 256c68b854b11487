// A call as its stored request tells of it, for those who settle or undo it later.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/call/call_values.h"
#include "filters/ledger/model/event.h"
#include "policy/model/policy.h"

namespace recourse {

// nullptr: the policy has none of that name.
const Backend* FindBackend(const Policy& policy, std::string_view name);

// Whether calls go to the same address, whatever the two are called.
bool IsSamePlace(const Backend& a, const Backend& b);
// What the policy says of the operation's key; of a lost policy nothing.
const KeyRule& KeyRuleOf(const Event& event, const Policy* policy);

// The tool that the policy takes a request for; nullptr: none. `path` is without query.
const Tool* FindToolOf(const Policy& policy, const Backend& backend, const HttpRequest& request,
                       const std::string& path);

// How the call is named in `event`: by method and path, or as tools/call by the name of its tool.
// `reading` is its body's.
void NameCall(const HttpRequest& request, std::string path, const CallBody& reading, Event& event);
// The same where nobody has read the body.
void NameCall(const Backend& backend, const HttpRequest& request, std::string path, Event& event);

// What the path of the operation's call captured, decoded; empty when the policy matches the path
// otherwise by now.
Pairs CapturesOf(const Event& event, const Policy& policy);

// The call behind `request`, read as the chain read it.
class StoredCall {
 public:
  StoredCall(const Event& event, const Policy& policy, const HttpRequest& request);
  StoredCall(const StoredCall&) = delete;
  StoredCall& operator=(const StoredCall&) = delete;

  // Key, external_ref and answer are unset. Points into this object and the request.
  CallValues Values() const;

 private:
  const HttpRequest& request_;
  const Pairs captures_, query_;
  const CallBody body_;
};

}  // namespace recourse
