// A small template.
#pragma once

#include <string_view>

namespace recourse {

inline constexpr std::string_view kTemplateText = R"({
  "version": 1,
  "initContainers": [{"name": "recourse", "restartPolicy": "Always",
                      "args": ["run", "--log-level=info"],
                      "securityContext": {"runAsUser": 19080}}],
  "volumes": [{"name": "recourse-policy", "configMap": {"name": "p"}}],
  "ledgers": {"emptyDir": {"name": "recourse-ledger", "emptyDir": {}}},
  "ledger": "emptyDir",
  "agentEnv": [{"name": "A", "value": "1"}],
  "agentVolumeMounts": [],
  "imagePullSecrets": [],
  "labels": {"a/b~c": "d"},
  "annotations": {},
  "annotationLists": {},
  "unsafePods": "refuse",
  "workloads": "warn",
  "missingObjects": "refuse",
  "unknownObjects": "warn",
  "securityContext": {"fsGroup": 19080},
  "terminationGracePeriodSeconds": 60
})";

}  // namespace recourse
