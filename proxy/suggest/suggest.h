// `recourse policy suggest`: reads what observe mode has seen, writes tools for a policy, and tries
// them.
#pragma once

#include <ostream>
#include <string>

#include "proxy/base/clock.h"

namespace recourse {

struct SuggestOptions {
  std::string data;            // of the process that observes
  std::string install_secret;  // file; empty: DATA/install.secret
  std::string policy;          // in force; empty: nothing is tried
  std::string openapi;         // description that names paths; empty: none
  std::string out_file;        // empty: `out`
  Millis since{};
  bool skips_drill = false;
  bool tells_details = false;
  bool tell_progress = false;  // of the drill, on `err`
};

// Writes the tools to the file or to `out`, and to `err` the verdict, then, if it is asked for or
// the suggestion failed, what check and drill said. Gives 0; 1: the suggestion failed its
// check, its replay or its drill; 2: there is nothing to read. Before this process has any thread,
// as the drill forks.
int RunSuggest(const SuggestOptions& options, std::ostream& out, std::ostream& err);

}  // namespace recourse
