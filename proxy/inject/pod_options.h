// What a pod says of its injection, by annotations.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/json/json.h"

namespace recourse {

struct PodOptions {
  bool is_asked = false;                  // recourse.dev/inject: "true" or "enabled"
  std::optional<std::string> policy;      // policy-configmap
  std::optional<std::string> ledger;      // one of PodTemplate::ledgers, or kOwnLedger
  std::optional<std::string> ledger_max;  // such as 8GiB
  std::optional<std::string> log_level;
  // Of the sidecar: "requests/cpu" and its quantity; the name of a port and its number.
  std::vector<std::pair<std::string, std::string>> resources, ports;
  std::optional<std::vector<std::string>> containers;  // those that are agents; else all
  bool has_more = false;                               // any but `inject`
};

// Fails with a sentence for whoever wrote the pod: on a word of the group that nobody knows, too,
// as an agent with a misspelt one would run unguarded.
std::expected<PodOptions, std::string> ReadPodOptions(const Json& pod);

}  // namespace recourse
