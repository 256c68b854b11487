// What `recourse doctor` finds, as values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

struct Check {
  enum class Verdict : std::uint8_t {
    kGood,
    kDoubt,      // it works, and something about it should be known
    kBad,        // it will not work
    kNotLooked,  // what it takes to look was not given
  };
  std::string name;     // "backend"
  std::string subject;  // "shop http://127.0.0.1:8000"; empty: the name says all
  Verdict verdict = Verdict::kGood;
  std::string found;
  std::string mend;  // what to do; empty where there is nothing to be done
};

std::string_view NameOf(Check::Verdict verdict);  // "good"
bool HasBad(const std::vector<Check>& checks);

// A line for each, with what to do under it; `has_colours`: for a terminal.
std::string TextOf(const std::vector<Check>& checks, bool has_colours);
// {"ok":true,"checks":[{"name":..,"subject":..,"verdict":..,"found":..,"mend":..}]}
std::string JsonOf(const std::vector<Check>& checks);

}  // namespace recourse
