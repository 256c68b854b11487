// Whether what the policy reads from a call has one reading. Pure.
#pragma once

#include <optional>
#include <string>

#include "filters/call/call_values.h"
#include "policy/model/policy.h"

namespace recourse {

struct Objection {
  ErrorCode code = ErrorCode::kMalformedRequest;  // or kUnsupportedMediaType
  std::string detail;                             // names the place and what to do
};

// Why a call of `tool` must not be sent: a backend could take another value than the policy for a
// key, a condition or an undo request. That is so when what the policy reads is there twice, or
// under a name that some reader takes for its name (twins.h): among the fields of a query, a form
// or the header, and among the members on the way to a value in JSON; when a name that is read in
// the query stands in the body too, or the other way round, or among the cookies, as some servers
// make one list of all; and when the policy reads from a body that has another type than JSON or
// form, is encoded, in another charset than UTF-8, or is not there at all, or from a part of a form
// that is no text.
// An encoded body is also refused where the key is made of it and the agent did not name its intent
// (`intent_is_named`): the same arguments are other bytes each time they are compressed.
// nullopt: nothing is to be said against it. `query` is decoded, the target of `request` is raw.
std::optional<Objection> ObjectionTo(const Tool& tool, const HttpRequest& request,
                                     const CallBody& body,
                                     const std::vector<std::pair<std::string, std::string>>& query,
                                     bool intent_is_named);

}  // namespace recourse
