// The port that agents connect to: who gets in, and who is served on which thread.
#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "proxy/downstream/http1_connection.h"
#include "proxy/exchange/connection_limiter.h"
#include "proxy/exchange/services.h"
#include "proxy/net/loop/listener.h"
#include "proxy/startup/startup.h"

namespace recourse {

// Made and started on the main thread. Connections live on the threads of their workers.
class AgentListener {
 public:
  // All outlive it. `threads` and `workers` are the same number, which never changes once Listen
  // was called.
  struct Parts {
    const Config& config;
    Services& services;
    const std::vector<std::unique_ptr<IoThread>>& threads;
    const std::vector<std::unique_ptr<Worker>>& workers;
    const Lanes& lanes;
  };
  explicit AgentListener(const Parts& parts);

  // TLS of new connections as the files were at the start; null: plain.
  const std::shared_ptr<const TlsServer>& tls() const { return tls_.First(); }
  // Gives the workers a certificate that was rotated; connections keep what they began with.
  void RefreshTls(FileState::Look look);

  // Takes the address; throws StartupError when it cannot.
  void Listen(const std::string& address);
  // Takes the port on 127.0.0.1 and, where the machine has IPv6, on ::1, for connections that a
  // rule of the kernel redirects there. After Listen; throws StartupError too.
  void ListenForRedirected(std::uint16_t port);
  // Of --listen; port 0: nobody listens there.
  Tcp::endpoint endpoint() const {
    return listeners_.empty() ? Tcp::endpoint() : listeners_.front()->endpoint();
  }
  // All of them.
  std::vector<Tcp::endpoint> endpoints() const;
  // Before the threads start.
  void Start();
  // Takes no new connections. Thread-safe; once.
  void Close();
  // Ends what is idle, also what became idle since the last time. Thread-safe.
  void EndIdle();

 private:
  std::expected<ConnectionLimiter::Place, ConnectionLimiter::Full> EnterOrMakeRoom(
      std::size_t index, const ConnectionLimiter::Address& peer);
  // `original` is where the client of a redirected connection wanted to.
  void Serve(std::size_t index, Socket socket, std::optional<Tcp::endpoint> original);
  void ServeRedirected(std::size_t index, Socket socket);
  void AddListener(const Tcp::endpoint& endpoint, Listener::OnConnection handler);

  const Parts parts_;
  ServerTls tls_;
  ConnectionLimiter gate_;
  std::vector<std::unordered_set<Http1Connection*>>
      connections_;                                   // by worker, each used on its own thread
  std::vector<std::unique_ptr<Listener>> listeners_;  // that of --listen first
};

}  // namespace recourse
