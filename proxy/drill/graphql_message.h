// What the drill says to a GraphQL server, and what its made-up server answers. Pure.
#pragma once

#include "policy/model/policy.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {

// The mutation of the tool's first field: every argument by a variable of its name, and selected
// what the policy reads of the answer. The schema is nobody's, and types are made up.
void WriteMutation(const Backend& backend, const Tool& tool, const Json& arguments,
                   HttpRequest& request);

// True for a document that only asks.
bool IsGraphqlQuestion(const Backend& backend, const HttpRequest& request);

// An answer to the settle request that has nothing where it looks: an empty list on the way, if a
// list is there.
HttpResponse NothingOfGraphql(const SettleRule& rule);

}  // namespace recourse
