// What an operation of a document does: fragments resolved, variables put in. Pure.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "policy/graphql/document.h"
#include "proxy/base/json/json.h"

namespace recourse {

namespace limits {
// Fragments in fragments grow fast.
inline constexpr int kGraphqlExpandedMax = 16'384;
}  // namespace limits

// What a field gives back, by the names that it has in the answer. What a directive may leave out
// is not in it.
struct GraphqlShape {
  std::string key;
  std::vector<GraphqlShape> members;  // none: a leaf
};

// A field of a mutation itself, which is what changes something.
struct GraphqlRootField {
  std::string name;
  Json arguments;         // an object; variables are put in, those without a value left out
  GraphqlShape shape;     // its key is that of the answer
  std::string selection;  // what it selects, the same however that is written
  GraphqlSpan head, name_span;
  const GraphqlSelection* as_written = nullptr;  // in the document
};

struct GraphqlCall {
  GraphqlOperation::Type type = GraphqlOperation::Type::kQuery;
  std::string name;                      // empty: none
  std::vector<GraphqlRootField> fields;  // of a mutation, without __typename
};

// The operation of `document` that is called `name`; "" is the only one.
std::expected<const GraphqlOperation*, std::string> ChooseOperation(const GraphqlDocument& document,
                                                                    std::string_view name);

// Of queries and subscriptions only the type. Fails with the reason: `variables` is no object, a
// fragment or a variable that is used is not defined, fragments that use each other in a circle,
// too many of them, a field of the mutation that a directive may leave out or defer, or one key of
// the answer for two of them. The document outlives it.
std::expected<GraphqlCall, std::string> ResolveOperation(const GraphqlDocument& document,
                                                         const GraphqlOperation& operation,
                                                         const Json& variables);

// Whether the answer has a value at `pointer`, which leads on from the field. Steps that are
// numbers are elements of lists.
bool Selects(const GraphqlShape& shape, std::string_view pointer);

}  // namespace recourse
