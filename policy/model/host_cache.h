// The host that was asked for last, which mostly is the one that is asked for next.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "policy/model/route_table.h"

namespace recourse {

// Answers as the table does. Not thread-safe; the table outlives it.
class HostCache {
 public:
  explicit HostCache(const RouteTable& routes) : routes_(routes) {}

  // As RouteTable::Place.
  EndpointPlace Place(std::string_view authority, std::uint16_t default_port,
                      std::string_view path) {
    if (group_ == nullptr || default_port != default_port_ || authority != authority_) {
      const HostGroup* const found = routes_.FindHost(authority, default_port);
      if (found == nullptr) return {};
      group_ = found;
      default_port_ = default_port;
      authority_.assign(authority);
    }
    return routes_.PlaceIn(*group_, path);
  }

 private:
  const RouteTable& routes_;
  const HostGroup* group_ = nullptr;  // of these two; null: nobody was asked for yet
  std::uint16_t default_port_ = 0;
  std::string authority_;
};

}  // namespace recourse
