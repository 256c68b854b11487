// What an injector adds to pods: a JSON file that the Helm chart renders.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/json/json.h"

namespace recourse {

// Names by which the parts of a pod are found, in the chart as here.
inline constexpr std::string_view kSidecarName = "recourse";
inline constexpr std::string_view kRedirectName = "recourse-redirect";
inline constexpr std::string_view kLedgerVolume = "recourse-ledger";
inline constexpr std::string_view kPolicyVolume = "recourse-policy";
// The ledger on a volume that the pod brings itself.
inline constexpr std::string_view kOwnLedger = "pvc";
// The same of a Deployment that never has two pods.
inline constexpr std::string_view kSingletonLedger = "singleton";

struct PodTemplate {
  std::vector<Json> init_containers;  // in their order; one is the sidecar
  std::vector<Json> volumes;          // all but the ledger's
  // Volumes for the ledger of pods that bring none, by the word that chooses one.
  std::vector<std::pair<std::string, Json>> ledgers;
  std::string ledger;  // the one for pods that choose none, or kOwnLedger
  std::vector<Json> agent_env, agent_mounts;
  std::vector<Json> pull_secrets;  // the pod's imagePullSecrets have these, too
  Json labels, security_context;   // objects; of the pod
  Json annotations;                // an object; what the pod has of them stays
  Json annotation_lists;           // an object of lists by commas, each added to the pod's own
  bool refuses_unsafe = true;      // agents with rights that break the promise; else they are told
  bool refuses_workloads = false;  // what would make pods that are refused; else they are told
  // Pods whose sidecar would wait for a ConfigMap or Secret that is not there.
  enum class Missing : std::uint8_t { kIgnore, kWarn, kRefuse };
  Missing missing = Missing::kIgnore;
  bool refuses_unknown = false;    // pods of which nobody can tell that; else they are told
  std::int64_t grace_seconds = 0;  // the pod's terminationGracePeriodSeconds is at least this

  const Json& sidecar() const;
};

// Fails with a sentence that says where and what is accepted.
std::expected<PodTemplate, std::string> ReadPodTemplate(std::string_view text);

// The item of an array of objects with that "name"; null: there is none.
const Json* FindNamed(const std::vector<Json>& list, std::string_view name);
// A whole number; nullopt: it is none.
std::optional<std::int64_t> WholeNumber(const Json* value);

}  // namespace recourse
