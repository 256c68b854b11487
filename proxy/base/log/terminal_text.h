// Text of foreign origin for a person's terminal.
#pragma once

#include <string>
#include <string_view>

namespace recourse {

// `text` with everything escaped (\x1b, \u{202e}) that steers a terminal or hides what follows: C0
// and C1 controls, DEL, and the direction and invisible characters of Unicode.
std::string TerminalText(std::string_view text);

}  // namespace recourse
