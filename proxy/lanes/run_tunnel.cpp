#include "proxy/lanes/run_tunnel.h"

namespace recourse {

Task<void> RunTunnel(Exchange& exchange, Tunnel& tunnel) {
  Services& services = exchange.request.services;
  Metrics& metrics = *services.metrics;
  exchange.client.Drains(&tunnel);
  metrics.tunnels.Increment();
  if (services.draining) tunnel.Drain();
  co_await tunnel.Run();
  metrics.tunnels.Decrement();
  exchange.client.Drains(nullptr);
  exchange.request.record.bytes_in += tunnel.bytes_to_backend();
  exchange.request.record.bytes_out += tunnel.bytes_to_client();
  metrics.tunnel_bytes_to_backend.Increment(static_cast<double>(tunnel.bytes_to_backend()));
  metrics.tunnel_bytes_to_client.Increment(static_cast<double>(tunnel.bytes_to_client()));
}

}  // namespace recourse
