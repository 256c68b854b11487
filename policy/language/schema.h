// The shape of the policy language as JSON Schema (2020-12), for editors and for checks outside of
// this program.
#pragma once

#include <string_view>

namespace recourse {

// What the loader accepts is a subset: it also knows names, ambiguities and secrets. A test
// compares the words of both.
std::string_view PolicySchema();
// Those of its definitions that `settle`, `before`, `undo` and `approval` have.
std::string_view SchemaOfToolWords();

}  // namespace recourse
