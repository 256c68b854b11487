// What a GraphQL server answers to a mutation of one field. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/base/json/json.h"

namespace recourse {

enum class GraphqlSays : std::uint8_t {
  kNothing,  // it is no answer of GraphQL, or its field is null and no error says why
  kData,     // the field has a value, and there is no error
  kErrors,   // there are errors, and the field has no value
  kBoth,
};

// `body` may be null: it is no JSON, or cannot be read.
GraphqlSays ReadGraphqlAnswer(const Json* body);

// The words of its first error, bounded; empty: it has none.
std::string GraphqlErrorText(const Json* body);

// What is kept of a mutation that is known to be executed, but not with what answer: clients take
// the error for what it is, and show its words.
std::string GraphqlOfLostAnswer(std::string_view external_ref, std::string_view settled_by);

}  // namespace recourse
