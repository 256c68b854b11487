// Whether two names mean the same to some reader. Pure.
//
// Servers read names in other ways than they are written: Go's encoding/json and .NET in any case,
// PHP with `_` for a dot, C libraries up to a NUL. One table holds these rules, and every place
// that compares a name of a call with one of the policy goes by it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace recourse {

// Where a name stands, which says who reads it.
enum class NameIn : std::uint8_t {
  kJson,    // a member
  kForm,    // of a form, a multipart body, a query or a cookie
  kHeader,  // a field
  kPath,    // a segment
  kMcp,     // a tool of an MCP server
};

// What all readings of a name have in common: names with the same one are the same to some reader.
std::string SkeletonOf(NameIn where, std::string_view name);

// Whether some reader takes one for the other, or one for a part of the other (`a[x]` sets `a`).
// Every name is a twin of itself.
bool AreTwins(NameIn where, std::string_view a, std::string_view b);

// The name of a form or a query up to the first part that nests: `a` of `a[x]`.
std::string_view RootOf(std::string_view name);

// For people, in ASCII: what cannot be seen is named, as in `amount<U+200B>`.
std::string ShownName(std::string_view name);

}  // namespace recourse
