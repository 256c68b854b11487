// The argument of a directive in which some servers take the key of a mutation, such as
// @idempotent(key: "..."). Pure.
#pragma once

#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "policy/graphql/document.h"

namespace recourse {

struct GraphqlKeyArgument {
  std::optional<std::string> text;  // what stands there, or in its variable
  std::string variable;             // that the document leaves the key to; empty: none
  GraphqlSpan span;                 // of the directive in the body; of no size: where a key goes
  std::string before, after;        // what a key there stands between
  bool is_in_json = false;          // the document is a text of the body, and not the body itself
};

// Where the one field of the mutation that `body` asks for has it, or would. Fails with a static
// reason where nobody can write a key there, or what stands there is none.
std::expected<GraphqlKeyArgument, std::string_view> FindGraphqlKey(std::string_view body,
                                                                   std::string_view directive,
                                                                   std::string_view argument);

// What puts `key` at `place.span.at` of the body.
std::string GraphqlKeyText(const GraphqlKeyArgument& place, std::string_view key);

}  // namespace recourse
