// What is kept of the resource that a write changes, out of answers and requests. Pure.
#pragma once

#include <expected>
#include <string>

#include "filters/ledger/model/event.h"
#include "filters/upstream.h"
#include "policy/model/policy.h"
#include "policy/template/snapshot.h"

namespace recourse {

// Why a state could not be read.
struct Unread {
  std::string why;       // for people
  bool may_pass = true;  // another try may read it
};

// What the answer to the request of `rule` shows: a whole 2xx with every kept place. Where
// `may_be_gone`, 404 and 410 say that it is not there.
std::expected<Snapshot, Unread> ReadSnapshot(const BeforeRule& rule, const Result<Answer>& answer,
                                             bool may_be_gone);

// What a call with `method` to the tool, which has a `before`, leaves of it if it does what it asks
// for: each kept place as its body sets it, the others as they were.
Snapshot PlannedState(const Tool& tool, const Snapshot& before, std::string_view method,
                      const CallValues& call);

// What the call has left, by its own answer as far as that shows all of it. A mutation shows below
// its field what a query shows of it.
Snapshot StateLeft(const Tool& tool, Snapshot planned, const CallValues& answered);

// Whether that `version` of a `before` is the one that HTTP itself has.
bool IsEntityTag(const Selector& version);

// Whether what is read there is the very thing that a call to `target`, with that canonical path,
// writes to. With another query it is another representation, whose tag a write may not know (RFC
// 9110, section 8.8.3).
bool ReadsWhatIsWritten(std::string_view read, std::string_view path, std::string_view target);

// What a call to the tool is to find, by If-Match, for `state` to be what it changes: the version
// of the very thing that it writes to. Empty: that cannot be asked for, what is kept would not show
// that the call was made, or the agent has asked for something itself.
std::string VersionToFind(const Tool& tool, const StateKept& state, const HttpRequest& call,
                          std::string_view path, const CallValues& values);

// The version that an answer to a write tells of what that has left; empty: none.
std::string VersionTold(const BeforeRule& rule, const Answer& answer);

// The request as it is sent to the backend: nothing in between may answer it.
HttpRequest SnapshotRequest(const RenderedRequest& request, const Backend& backend);

}  // namespace recourse
