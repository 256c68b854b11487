// What must be in a pod's namespace so that its sidecar starts. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/inject/pod_template.h"

namespace recourse {

struct NeededObject {
  enum class Kind : std::uint8_t { kConfigMap, kSecret };
  Kind kind = Kind::kConfigMap;
  std::string name;
  auto operator<=>(const NeededObject&) const = default;
};

// "ConfigMap".
std::string_view NameOf(NeededObject::Kind kind);

// Each once; what a volume calls optional is not.
std::vector<NeededObject> NeededBy(const PodTemplate& from);

struct MissingObjects {
  std::vector<NeededObject> names;
  std::string unknown;  // why it cannot be told; empty: it could
};
// Blocking. Unset: nobody looks.
using FindMissing =
    std::function<MissingObjects(std::string_view space, const std::vector<NeededObject>& needed)>;

// "its namespace shop has no ConfigMap p and no Secret s: make them, ..."
std::string WhatIsMissing(std::string_view space, const std::vector<NeededObject>& names);

}  // namespace recourse
