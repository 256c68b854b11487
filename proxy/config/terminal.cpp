#include "proxy/config/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace recourse {

bool IsTerminal(int file) { return ::isatty(file) == 1; }

bool HasColours() {
  const char* const none = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return IsTerminal(STDOUT_FILENO) && (none == nullptr || *none == '\0') &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

}  // namespace recourse
