#include "policy/files/excerpt.h"

#include <fmt/format.h>

#include <algorithm>

namespace recourse {
namespace {

constexpr std::size_t kWidth = 90;        // of what is shown of a line
constexpr std::size_t kBeforeCaret = 60;  // of it, at most

std::string_view LineOf(std::string_view text, int number) {
  for (int line = 1; line < number; ++line) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// A terminal gets nothing but text; one character for each byte that is none.
std::string Shown(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else if (!IsContinuation(c)) {
      out += c == '\t' ? ' ' : '?';
    }
  }
  return out;
}

}  // namespace

std::string ExcerptFor(const PolicyProblem& problem, std::string_view text) {
  if (problem.line <= 0 || problem.column <= 0) return {};
  std::string_view line = LineOf(text, problem.line);
  auto before = std::min(static_cast<std::size_t>(problem.column) - 1, line.size());
  if (line.find_first_not_of(' ') == std::string_view::npos) return {};
  if (before > kBeforeCaret) {
    line.remove_prefix(before - kBeforeCaret);
    before = kBeforeCaret;
  }
  const std::string caret(Shown(line.substr(0, before)).size(), ' ');
  return fmt::format("{:>6} | {}\n       | {}^\n", problem.line, Shown(line.substr(0, kWidth)),
                     caret);
}

}  // namespace recourse
