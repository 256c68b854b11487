// `recourse drill`: kills copies of this program at every durable point of a policy's own flows,
// against backends scripted from that policy, and says whether the promise was kept.
#pragma once

#include <expected>
#include <ostream>
#include <string>

#include "policy/files/sources.h"
#include "proxy/base/clock.h"
#include "proxy/base/limits.h"
#include "proxy/drill/drill_report.h"
#include "proxy/drill/scripted_backend.h"

namespace recourse {

struct DrillOptions {
  std::string policy;                  // file or directory
  std::string flow;                    // only this one; empty: all
  std::string tmp = "/tmp";            // where a temporary directory is made
  Millis timeout = limits::kDrillFor;  // for all runs
  Ambiguities doubts{};
  bool json = false;
  bool tell_progress = false;  // on `err`
  bool tell_flows = false;     // the same for a file: a line for each flow that is through
};

inline constexpr int kExitDrillBroken = 1;
inline constexpr int kExitDrillUsage = 2;

// The drill of these files, named as `options` has it, or lines that say why there is none.
// Touches no backend, credential, ledger or webhook of the policy. Call it before this process has
// any thread, as it forks. When this process ends, however it does, all others of the drill end,
// and the last of them removes the temporary directory.
std::expected<DrillFindings, std::string> PlayDrill(const PolicySources& sources,
                                                    const DrillOptions& options, std::ostream& err);

// The same of the policy at a path, printed. Gives the exit code: 0 kept, 1 broken or not proven,
// 2 the policy or the options are no good.
int RunDrill(const DrillOptions& options, std::ostream& out, std::ostream& err);

}  // namespace recourse
