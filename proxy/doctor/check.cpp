#include "proxy/doctor/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "proxy/base/json/json_object.h"
#include "proxy/base/log/terminal_text.h"

namespace recourse {
namespace {

// Foreground colours of ECMA-48.
std::string_view ColourOf(Check::Verdict verdict) {
  switch (verdict) {
    case Check::Verdict::kGood:
      return "\x1b[32m";
    case Check::Verdict::kDoubt:
      return "\x1b[33m";
    case Check::Verdict::kBad:
      return "\x1b[31m";
    case Check::Verdict::kNotLooked:
      return "\x1b[2m";
  }
  return "";
}

}  // namespace

std::string_view NameOf(Check::Verdict verdict) {
  switch (verdict) {
    case Check::Verdict::kGood:
      return "good";
    case Check::Verdict::kDoubt:
      return "doubt";
    case Check::Verdict::kBad:
      return "bad";
    case Check::Verdict::kNotLooked:
      return "not looked";
  }
  return "";
}

bool HasBad(const std::vector<Check>& checks) {
  return std::ranges::any_of(
      checks, [](const Check& check) { return check.verdict == Check::Verdict::kBad; });
}

std::string TextOf(const std::vector<Check>& checks, bool has_colours) {
  std::string out;
  for (const Check& check : checks) {
    const std::string word = fmt::format("{:<10}", NameOf(check.verdict));
    out += has_colours ? fmt::format("{}{}\x1b[0m  ", ColourOf(check.verdict), word) : word + "  ";
    out += fmt::format("{}{}{}: {}\n", check.name, check.subject.empty() ? "" : " ",
                       TerminalText(check.subject), TerminalText(check.found));
    if (!check.mend.empty()) out += fmt::format("{:12}do: {}\n", "", TerminalText(check.mend));
  }
  return out;
}

std::string JsonOf(const std::vector<Check>& checks) {
  return ObjectText([&](JsonObject& json) {
    json.Bool("ok", !HasBad(checks));
    json.Each("checks", checks, [](std::string& to, const Check& check) {
      JsonObject one(to);
      one.Text("name", check.name);
      one.TextIfAny("subject", check.subject);
      one.Text("verdict", NameOf(check.verdict));
      one.Text("found", check.found);
      one.TextIfAny("mend", check.mend);
    });
  });
}

}  // namespace recourse
