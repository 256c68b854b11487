// Which paths are endpoints of servers whose protocol has the body say what a call is. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model/policy.h"
#include "policy/model/route_tree.h"

namespace recourse {

enum class EndpointPath : std::uint8_t {
  kExact,      // the endpoint, written as the backend's url has it
  kAmbiguous,  // not that, but the server may take it for the endpoint: it must not be passed on
  kOther,      // RouteTable::Match decides, and refuses what has no canonical form
};

// Who serves a path, and what it is there.
struct EndpointPlace {
  const Backend* backend = nullptr;
  EndpointPath where = EndpointPath::kOther;
  const Backend* endpoint_of = nullptr;  // unless kOther: whose it is
};

// Endpoints that are told apart by their paths. The backends outlive it.
class Endpoints {
 public:
  // Of a backend that has an endpoint. Two that Find would mix up were refused by the loader.
  void Add(const Backend& backend);

  // `path` is a target without query. Readings as RouteTable::Match knows them. The backend is the
  // one whose endpoint it is or may be taken for, or nullptr. No allocation for an endpoint itself.
  EndpointPlace Find(std::string_view path) const;

  // The backend whose endpoint is the longest beginning of `path`, by whole segments, also where
  // that stands behind "/.well-known/NAME" (RFC 8414, 9728); nullptr: none.
  const Backend* Nearest(std::string_view path) const;

 private:
  const Backend* LooselyAt(std::string_view path) const;

  TextMap<const Backend*> exact_;
  TextMap<const Backend*> folded_;  // in the form of FoldPath, without a trailing slash
};

// Whether their urls name one host and port.
inline bool IsSameServer(const Backend& a, const Backend& b) {
  return a.host == b.host && a.port == b.port;
}

// The same of one backend.
EndpointPath EndpointPathOf(const Backend& backend, std::string_view path);

}  // namespace recourse
