// A running process: builds everything in order, waits for a signal, drains, and stops.
#pragma once

#include "proxy/config/config.h"
#include "proxy/startup/drill_overrides.h"

namespace recourse {

// Blocks until SIGTERM or SIGINT and the drain after it. Gives the exit code; what went wrong is
// one line on stderr. Call on the main thread, once.
// `rehearsal` is null in a real run.
int RunProxy(const Config& config, const DrillOverrides* rehearsal = nullptr);

}  // namespace recourse
