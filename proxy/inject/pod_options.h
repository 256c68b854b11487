// What a pod says of its injection, by annotations.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/json/json.h"

namespace recourse {

struct PodOptions {
  bool is_asked = false;                  // recourse.dev/inject: "true"
  std::optional<std::string> policy;      // policy-configmap
  std::optional<std::string> ledger;      // one of PodTemplate::ledgers, or kOwnLedger
  std::optional<std::string> ledger_max;  // such as 8GiB
  std::optional<std::string> log_level;
  std::optional<std::vector<std::string>> containers;  // those that are agents; else all
  bool has_more = false;                               // any but `inject`
};

// Fails with a sentence for whoever wrote the pod: on a word of the group that nobody knows, too,
// as an agent with a misspelt one would run unguarded.
std::expected<PodOptions, std::string> ReadPodOptions(const Json& pod);

}  // namespace recourse
