// The flags that say where traces go.
#pragma once

#include <CLI/CLI.hpp>

#include "proxy/config/config.h"

namespace recourse {

// `otlp` outlives the parse.
void AddTraceOptions(CLI::App& run, OtlpSettings& otlp);

}  // namespace recourse
