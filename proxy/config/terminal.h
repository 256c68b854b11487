// Who reads what a command prints.
#pragma once

namespace recourse {

// Whether a person at a terminal does.
bool IsTerminal(int file);
// Whether standard output may have colours: a terminal, and neither NO_COLOR (no-color.org) nor a
// TERM that has none says otherwise.
bool HasColours();

}  // namespace recourse
