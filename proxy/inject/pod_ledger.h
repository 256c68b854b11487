// Where the ledger of a pod lives: two pods never share one.
#pragma once

#include <expected>
#include <optional>
#include <string>

#include "proxy/inject/pod_options.h"
#include "proxy/inject/pod_template.h"

namespace recourse {

struct PodLedger {
  const Json* volume = nullptr;        // to be added; null: the pod brings its own
  std::optional<std::string> warning;  // what is lost, and when
};

// By the pod's own volume, who made the pod, and what it asks for. Fails with a sentence for
// whoever made the pod. The volume is the template's.
std::expected<PodLedger, std::string> LedgerFor(const Json& pod, const PodOptions& options,
                                                const PodTemplate& from);

// The same for a pod that has the sidecar, and so the volume: why its ledger is not its own alone.
std::optional<std::string> WhyLedgerIsShared(const Json& pod, const PodOptions& options);

}  // namespace recourse
