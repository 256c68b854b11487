#include "proxy/inject/needed_objects.h"

#include <fmt/format.h>

#include <algorithm>

namespace recourse {
namespace {

bool IsOptional(const Json& source) {
  const Json* const optional = source.Find("optional");
  return optional != nullptr && optional->kind == Json::Kind::kTrue;
}

void AddNeeded(std::vector<NeededObject>& to, const Json* source, std::string_view member,
               NeededObject::Kind kind) {
  if (source == nullptr || IsOptional(*source)) return;
  NeededObject one{kind, std::string(TextOf(*source, member))};
  if (one.name.empty() || std::ranges::find(to, one) != to.end()) return;
  to.push_back(std::move(one));
}

}  // namespace

std::string_view NameOf(NeededObject::Kind kind) {
  return kind == NeededObject::Kind::kSecret ? "Secret" : "ConfigMap";
}

std::vector<NeededObject> NeededBy(const PodTemplate& from) {
  using enum NeededObject::Kind;
  std::vector<NeededObject> needed;
  for (const Json& volume : from.volumes) {
    AddNeeded(needed, volume.Find("configMap"), "name", kConfigMap);
    AddNeeded(needed, volume.Find("secret"), "secretName", kSecret);
    const Json* const sources = AtPointer(volume, "/projected/sources");
    for (std::size_t i = 0; sources != nullptr && i < sources->items.size(); ++i) {
      AddNeeded(needed, sources->items[i].Find("configMap"), "name", kConfigMap);
      AddNeeded(needed, sources->items[i].Find("secret"), "name", kSecret);
    }
  }
  return needed;
}

std::string WhatIsMissing(std::string_view space, const std::vector<NeededObject>& names) {
  std::string list;
  for (const NeededObject& one : names) {
    list += fmt::format("{}no {} {}", list.empty() ? "" : " and ", NameOf(one.kind), one.name);
  }
  return fmt::format("the namespace {} has {}, without which the sidecar never starts: make {}",
                     space, list, names.size() == 1 ? "it" : "them");
}

}  // namespace recourse
