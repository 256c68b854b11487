// Where the writer of a YAML text went wrong that cannot be parsed: a parser says where it could
// not go on, which is often a line late and in words of its own. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace recourse {

struct YamlFault {
  int line = 0, column = 0;  // 1-based
  std::string message;       // what is wrong and what to do
  // The lines to leave out so that the rest can be read: the entry of a section that it is in.
  int first_line = 0, last_line = 0;
  std::string section;    // the key at the left margin that it is under; empty: it is at the margin
  std::string displaced;  // another such key among those lines, which only stands too far right
};

// The first fault up to line `failed_line`, where the parser gave up: a quote or bracket that is
// not closed, an indent that fits nothing, a line without a key, a colon too many. nullopt: none of
// those. Judges what a text without anchors, tags and complex keys may look like.
std::optional<YamlFault> FindYamlFault(std::string_view text, int failed_line);

}  // namespace recourse
