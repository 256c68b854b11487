// An executable document of GraphQL (specification of October 2021, sections 2.2 to 2.12), as its
// parser reads it: strict, and bounded in tokens and depth. An own one: libgraphqlparser's last
// release is of 2017 and knows no block strings. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/graphql/lexer.h"

namespace recourse {

namespace limits {
// An introspection has some 500 tokens.
inline constexpr std::size_t kGraphqlTokensMax = 16'384;
// Arguments of a field, fields of an object, fragments of a document, ...
inline constexpr std::size_t kGraphqlNamesMax = 512;
inline constexpr int kGraphqlDepthMax = 64;
}  // namespace limits

// Where something stands in a document.
struct GraphqlSpan {
  std::size_t at = 0, size = 0;
};

struct GraphqlValue {
  enum class Kind : std::uint8_t {
    kVariable,
    kInt,
    kFloat,
    kString,
    kBoolean,
    kNull,
    kEnum,
    kList,
    kObject
  };
  Kind kind = Kind::kNull;
  std::string text;                 // name, digits, decoded text, true or false
  std::vector<GraphqlValue> items;  // kList
  struct Field;
  std::vector<Field> fields;  // kObject
  GraphqlSpan span;
};

// Not a std::pair, which would have to be complete inside GraphqlValue.
struct GraphqlValue::Field {
  std::string first;  // the name
  GraphqlValue second;
};

using GraphqlArguments = std::vector<GraphqlValue::Field>;

struct GraphqlDirective {
  std::string name;
  GraphqlArguments arguments;
  GraphqlSpan span;
};

struct GraphqlSelection {
  enum class Kind : std::uint8_t { kField, kSpread, kInline };
  Kind kind = Kind::kField;
  std::string alias;  // empty: none
  std::string name;   // of the field, or of the fragment
  std::string type;   // kInline: its condition; empty: none
  GraphqlArguments arguments;
  std::vector<GraphqlDirective> directives;
  std::vector<GraphqlSelection> selections;
  GraphqlSpan head;       // of a field: alias, name and arguments
  GraphqlSpan name_span;  // of its name

  const std::string& ResponseKey() const { return alias.empty() ? name : alias; }
};

struct GraphqlVariable {
  std::string name;
  std::string type;  // as written, without blanks
  std::optional<GraphqlValue> standard;
};

struct GraphqlOperation {
  enum class Type : std::uint8_t { kQuery, kMutation, kSubscription };
  Type type = Type::kQuery;
  std::string name;  // empty: none
  std::vector<GraphqlVariable> variables;
  std::vector<GraphqlDirective> directives;
  std::vector<GraphqlSelection> selections;
};

struct GraphqlFragment {
  std::string name, type;
  std::vector<GraphqlDirective> directives;
  std::vector<GraphqlSelection> selections;
};

struct GraphqlDocument {
  std::vector<GraphqlOperation> operations;
  std::vector<GraphqlFragment> fragments;

  const GraphqlFragment* Fragment(std::string_view name) const;
};

// Refuses what has two readings too: names of operations, fragments, variables, arguments or fields
// of an object that are there twice, and a nameless operation beside others.
std::expected<GraphqlDocument, GraphqlFault> ParseGraphql(std::string_view document);

std::string_view NameOf(GraphqlOperation::Type type);

// A Name of the specification: /[_A-Za-z][_0-9A-Za-z]*/.
bool IsGraphqlName(std::string_view text);

}  // namespace recourse
