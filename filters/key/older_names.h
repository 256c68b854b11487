// Names that a call would have had under earlier recipes. Pure.
#pragma once

#include "filters/key/recipe.h"

namespace recourse {

// Those of earlier versions, of fewer words of `callers`, and of names that were told apart less.
// `fields`: FieldsAmongArguments; `order`: OrderAmongArguments.
void AddOlderNames(const KeyInputs& inputs, const Recipe& recipe, std::string_view fields,
                   std::string_view order, DerivedKey& derived);

// Those under the policies that were in force before. Without them a call of unknown outcome would
// be made again because somebody has edited the policy. Only the policy that an operation began
// under can say what repeats it: another digest of the request would tell apart less (fields that
// `identity` reads), or more (what `ignore` leaves out).
void AddNamesUnderEarlierPolicies(const RequestContext& context, const CallBody& body,
                                  const HmacKey& secret, DerivedKey& derived);

}  // namespace recourse
