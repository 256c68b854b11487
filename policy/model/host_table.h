// From the authority and the path of a request to the backend that serves it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "policy/model/endpoint.h"

namespace recourse {

struct HostGroup;

class HostTable {
 public:
  // The backends outlive the table. The loader has refused what could not be told apart.
  explicit HostTable(const std::vector<Backend>& backends);
  ~HostTable();

  // Whoever has that authority, and serves what is no endpoint of another there; nullptr: nobody.
  // As RouteTable::FindBackend.
  const Backend* Find(std::string_view authority, std::uint16_t default_port) const;

  // As RouteTable's.
  const HostGroup* FindHost(std::string_view authority, std::uint16_t default_port) const;
  EndpointPlace PlaceIn(const HostGroup& group, std::string_view path) const;
  EndpointPlace PlaceAtUrl(const Backend& backend, std::string_view path) const;

  // The endpoints of the server that the backend's url names; nullptr: it has none.
  const Endpoints* EndpointsAt(const Backend& backend) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace recourse
