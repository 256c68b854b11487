// The port that agents connect to: who gets in, and who is served on which thread.
#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "proxy/net/listener.h"
#include "proxy/server/connection_gate.h"
#include "proxy/server/services.h"
#include "proxy/server/session.h"
#include "proxy/server/startup.h"

namespace recourse {

// Made and started on the main thread. Sessions live on the threads of their workers.
class AgentPort {
 public:
  // All outlive it. `threads` and `workers` are the same number, which never changes once Listen
  // was called.
  struct Parts {
    const Config& config;
    Services& services;
    const std::vector<std::unique_ptr<IoThread>>& threads;
    const std::vector<std::unique_ptr<Worker>>& workers;
  };
  explicit AgentPort(const Parts& parts);

  // TLS of new connections as the files were at the start; null: plain.
  const std::shared_ptr<const TlsServer>& tls() const { return tls_.First(); }
  // Gives the workers a certificate that was rotated; connections keep what they began with.
  void RefreshTls(FileState::Look look);

  // Takes the address; throws StartupError when it cannot.
  void Listen(const std::string& address);
  Tcp::endpoint endpoint() const { return listener_->endpoint(); }
  // Before the threads start.
  void Start() { listener_->Start(); }
  // Takes no new connections. Thread-safe; once.
  void Close() { listener_->Close(); }
  // Ends what is idle, also what became idle since the last time. Thread-safe.
  void EndIdle();

 private:
  std::expected<ConnectionGate::Place, ConnectionGate::Full> EnterOrMakeRoom(
      std::size_t index, const ConnectionGate::Address& peer);
  void Serve(std::size_t index, TcpSocket socket);

  const Parts parts_;
  ServerTls tls_;
  ConnectionGate gate_;
  std::vector<std::unordered_set<Session*>> sessions_;  // by worker, each used on its own thread
  std::unique_ptr<Listener> listener_;
};

}  // namespace recourse
