// What servers are known to make of a path that has more than one reading. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/error.h"

namespace recourse {

struct PathReading {
  std::string path;        // escapes have upper-case digits
  bool has_moved = false;  // dot segments were resolved on the way to it
};

// Every path that `path`, which FormOf takes, becomes by the steps that servers take, in any order:
// escapes of plain characters, of '/', '\', ';', '?', '#' and '%' decoded, parameters cut off, what
// follows a decoded '?' or '#' cut off, empty segments merged, a leading "//host" dropped, dot
// segments resolved. The first is `path` itself. Fails with a static reason when they are more than
// kPathReadingsMax, when one leads above its root, or is none that FormOf would take.
Result<std::vector<PathReading>> PathReadings(std::string_view path);

}  // namespace recourse
