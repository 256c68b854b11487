#include "proxy/server/agent_port.h"

#include <utility>

namespace recourse {

AgentPort::AgentPort(const Parts& parts)
    : parts_(parts),
      tls_(TlsFilesOf(parts.config), "--tls-cert"),
      gate_(parts.config.bounds.connections_max, parts.config.bounds.connections_per_peer_max) {}

void AgentPort::RefreshTls(FileState::Look look) {
  const auto fresh = tls_.Refresh(look);
  if (fresh == nullptr) return;
  for (const auto& worker : parts_.workers) {
    std::vector<Job> jobs;
    jobs.emplace_back([target = worker.get(), fresh] { target->tls = fresh; });
    worker->thread.Post(std::move(jobs));
  }
}

void AgentPort::Listen(const std::string& address) {
  sessions_.resize(parts_.workers.size());
  std::vector<IoThread*> threads;
  for (const auto& thread : parts_.threads) threads.push_back(thread.get());
  ListenOrThrow("--listen", address, [&](const Tcp::endpoint& endpoint) {
    listener_ = std::make_unique<Listener>(
        threads, endpoint,
        [this](std::size_t index, TcpSocket socket) { Serve(index, std::move(socket)); });
  });
}

void AgentPort::EndIdle() {
  for (std::size_t i = 0; i < sessions_.size(); ++i) {
    std::vector<Job> jobs;
    jobs.emplace_back([this, i] {
      for (Session* session : sessions_[i]) session->Drain();
    });
    parts_.threads[i]->Post(std::move(jobs));
  }
}

// Who has a request to make goes before who only keeps a connection, if that is on this thread.
std::expected<ConnectionGate::Place, ConnectionGate::Full> AgentPort::EnterOrMakeRoom(
    std::size_t index, const ConnectionGate::Address& peer) {
  auto place = gate_.Enter(peer);
  if (place) return place;
  const bool is_peers = place.error() == ConnectionGate::Full::kPeer;
  if (!parts_.workers[index]->idle.MakeRoom(is_peers ? &peer : nullptr)) return place;
  return gate_.Enter(peer);
}

void AgentPort::Serve(std::size_t index, TcpSocket socket) {
  IoError gone;
  const auto peer = socket.remote_endpoint(gone).address();
  if (gone) return;
  Metrics& metrics = *parts_.services.metrics;
  auto place = EnterOrMakeRoom(index, peer);
  if (!place) {
    const bool is_peers = place.error() == ConnectionGate::Full::kPeer;
    metrics.rejections.Add({{"reason", is_peers ? "connections_of_peer" : "connections"}})
        .Increment();
    if (tls_.First() == nullptr) TurnAway(socket, place.error());
    return;  // closes the socket
  }
  ++parts_.services.sessions;
  metrics.connections.Increment();
  auto session =
      std::make_unique<Session>(*parts_.workers[index], std::move(socket), std::move(*place));
  Session* const running = session.get();
  sessions_[index].insert(running);
  Spawn(running->Run(), [this, index, owned = std::move(session)]() mutable {
    sessions_[index].erase(owned.get());
    owned.reset();
    parts_.services.metrics->connections.Decrement();
    --parts_.services.sessions;
  });
}

}  // namespace recourse
