// What an edit changed in a body, for people. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace recourse {

// JSON texts; empty: there is no such place on that side.
struct BodyChange {
  std::string at;  // JSON pointer
  std::string before, after;
};
// The places at which two JSON bodies differ, at most kBodyChangesMax; none when one of them is not
// JSON: then they have to be looked at whole.
std::vector<BodyChange> ChangesBetween(std::string_view before, std::string_view after);

}  // namespace recourse
