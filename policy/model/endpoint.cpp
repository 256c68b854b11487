#include "policy/model/endpoint.h"

#include "policy/uri/path.h"
#include "policy/uri/path_readings.h"
#include "policy/uri/path_variants.h"

namespace recourse {
namespace {

constexpr std::string_view kWellKnown = "/.well-known/";

std::string_view WithoutSlash(std::string_view path) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

std::string Folded(std::string_view path) { return FoldPath(WithoutSlash(path)); }

}  // namespace

void Endpoints::Add(const Backend& backend) {
  exact_.emplace(backend.endpoint, &backend);
  folded_.emplace(Folded(backend.endpoint), &backend);
}

EndpointPlace Endpoints::Find(std::string_view path) const {
  if (const auto same = exact_.find(path); same != exact_.end()) {
    return {same->second, EndpointPath::kExact, same->second};
  }
  std::string scratch;
  const auto form = FormOf(path, scratch);
  if (!form) return {};
  const Backend* taken_for = LooselyAt(form->path);
  if (taken_for == nullptr && !form->doubt.empty()) {
    const auto readings = PathReadings(path);
    if (!readings) return {};
    for (const PathReading& reading : *readings) {
      if (taken_for == nullptr) taken_for = LooselyAt(reading.path);
    }
  }
  if (taken_for == nullptr) return {};
  return {taken_for, EndpointPath::kAmbiguous, taken_for};
}

const Backend* Endpoints::LooselyAt(std::string_view path) const {
  const std::string trimmed = TrimSegments(path);
  for (const PathVariants& readings : {PathVariants(path), PathVariants(trimmed)}) {
    for (const std::string_view reading : readings) {
      const auto taken = folded_.find(Folded(reading));
      if (taken != folded_.end()) return taken->second;
    }
  }
  return nullptr;
}

const Backend* Endpoints::Nearest(std::string_view path) const {
  if (path.starts_with(kWellKnown)) {
    const auto slash = path.find('/', kWellKnown.size());
    path = slash == std::string_view::npos ? std::string_view("/") : path.substr(slash);
  }
  for (;;) {
    if (const auto at = folded_.find(Folded(path)); at != folded_.end()) return at->second;
    if (path.size() <= 1) return nullptr;
    path = path.substr(0, path.rfind('/', path.size() - 2) + 1);
  }
}

EndpointPath EndpointPathOf(const Backend& backend, std::string_view path) {
  Endpoints one;
  one.Add(backend);
  return one.Find(path).where;
}

}  // namespace recourse
