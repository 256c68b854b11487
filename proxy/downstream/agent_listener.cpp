#include "proxy/downstream/agent_listener.h"

#include <unistd.h>

#include <utility>

#include "proxy/base/log/log.h"
#include "proxy/base/post_job.h"
#include "proxy/net/loop/original_destination.h"
#include "proxy/redirect/redirect_admission.h"
#include "proxy/startup/listening.h"

namespace recourse {
namespace {

// At most one line a second: anybody in the pod can make such connections.
void LogRefused(Worker& worker, ArrivalRefusal refusal, const RedirectAdmission& arrival) {
  ++worker.arrivals_refused;
  const MonoTime now = worker.thread.clock().Now();
  if (now < worker.next_arrival_log) return;
  const std::string peer = arrival.peer.address().to_string();
  const std::string meant = arrival.original ? arrival.original->address().to_string() + " port " +
                                                   std::to_string(arrival.original->port())
                                             : std::string("nowhere else");
  Log(LogLevel::kWarn, "a connection to the redirect port was closed",
      {{"reason", NameOf(refusal)},
       {"client", peer},
       {"meant_for", meant},
       {"closed_since_last_line", std::to_string(worker.arrivals_refused)},
       {"advice", AdviceOn(refusal)}});
  worker.arrivals_refused = 0;
  worker.next_arrival_log = now + std::chrono::seconds(1);
}

}  // namespace

AgentListener::AgentListener(const Parts& parts)
    : parts_(parts),
      tls_(TlsFilesOf(parts.config), "--tls-cert"),
      gate_(parts.config.bounds.connections_max, parts.config.bounds.connections_per_peer_max) {}

void AgentListener::RefreshTls(FileState::Look look) {
  const auto fresh = tls_.Refresh(look);
  if (fresh == nullptr) return;
  for (const auto& worker : parts_.workers) {
    PostJob(worker->thread, [target = worker.get(), fresh] { target->tls = fresh; });
  }
}

void AgentListener::Listen(const std::string& address) {
  connections_.resize(parts_.workers.size());
  ListenOrThrow("--listen", address, [&](const Tcp::endpoint& endpoint) {
    AddListener(endpoint, [this](std::size_t index, Socket socket) {
      Serve(index, std::move(socket), std::nullopt);
    });
  });
}

void AgentListener::ListenForRedirected(std::uint16_t port) {
  const auto handler = [this](std::size_t index, Socket socket) {
    ServeRedirected(index, std::move(socket));
  };
  const std::string suffix = ':' + std::to_string(port);
  ListenOrThrow("--redirect", "127.0.0.1" + suffix,
                [&](const Tcp::endpoint& endpoint) { AddListener(endpoint, handler); });
  const Tcp::endpoint first = listeners_.back()->endpoint();
  if (!OwnerOfSocket(first, Tcp::endpoint(Tcp::v4(), 0))) {
    throw StartupError(kExitRuntime,
                       "--redirect: the kernel does not tell whose connections are whose, so that "
                       "those of Recourse itself could not be kept from going in circles; load its "
                       "module tcp_diag");
  }
  ListenOrThrow("--redirect", "[::1]:" + std::to_string(first.port()),
                [&](const Tcp::endpoint& endpoint) {
                  try {
                    AddListener(endpoint, handler);
                  } catch (const boost::system::system_error& error) {
                    if (error.code() != boost::asio::error::address_family_not_supported &&
                        error.code() != boost::system::errc::address_not_available) {
                      throw;
                    }
                    Log(LogLevel::kInfo, "no IPv6 here: only IPv4 connections can be redirected");
                  }
                });
}

void AgentListener::AddListener(const Tcp::endpoint& endpoint, Listener::OnConnection handler) {
  std::vector<IoThread*> threads;
  for (const auto& thread : parts_.threads) threads.push_back(thread.get());
  listeners_.push_back(
      std::make_unique<Listener>(std::move(threads), endpoint, std::move(handler)));
}

std::vector<Tcp::endpoint> AgentListener::endpoints() const {
  std::vector<Tcp::endpoint> all;
  for (const auto& listener : listeners_) all.push_back(listener->endpoint());
  return all;
}

void AgentListener::Start() {
  parts_.services.large_bodies.Start(parts_.threads.size(), "recourse-body");
  for (const auto& listener : listeners_) listener->Start();
}

void AgentListener::Close() {
  for (const auto& listener : listeners_) listener->Close();
}

void AgentListener::EndIdle() {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    PostJob(*parts_.threads[i], [this, i] {
      for (Http1Connection* connection : connections_[i]) connection->Drain();
    });
  }
}

// Who has a request to make goes before who only keeps a connection, if that is on this thread.
std::expected<ConnectionLimiter::Place, ConnectionLimiter::Full> AgentListener::EnterOrMakeRoom(
    std::size_t index, const ConnectionLimiter::Address& peer) {
  auto place = gate_.Enter(peer);
  if (place) return place;
  const bool is_peers = place.error() == ConnectionLimiter::Full::kPeer;
  if (!parts_.workers[index]->idle.MakeRoom(is_peers ? &peer : nullptr)) return place;
  return gate_.Enter(peer);
}

void AgentListener::ServeRedirected(std::size_t index, Socket socket) {
  const auto local = LocalEnd(socket.fd());
  const auto peer = PeerEnd(socket.fd());
  if (!local || !peer) return;
  RedirectAdmission arrival;
  arrival.local = *local;
  arrival.peer = *peer;
  arrival.original = OriginalDestination(socket.fd());
  if (arrival.original) arrival.owner = OwnerOfSocket(arrival.peer, *arrival.original);
  const auto refusal = JudgeArrival(arrival, parts_.services.own, ::geteuid());
  parts_.services.metrics->redirected.Add({{"result", std::string(NameOf(refusal))}}).Increment();
  if (refusal == ArrivalRefusal::kNone) {
    Serve(index, std::move(socket), arrival.original);
  } else {
    LogRefused(*parts_.workers[index], refusal, arrival);
  }
}

void AgentListener::Serve(std::size_t index, Socket socket, std::optional<Tcp::endpoint> original) {
  const auto end = PeerEnd(socket.fd());
  if (!end) return;
  const auto peer = end->address();
  Metrics& metrics = *parts_.services.metrics;
  auto place = EnterOrMakeRoom(index, peer);
  if (!place) {
    const bool is_peers = place.error() == ConnectionLimiter::Full::kPeer;
    metrics.rejections.Add({{"reason", is_peers ? "connections_of_peer" : "connections"}})
        .Increment();
    // Who was redirected may speak anything.
    if (tls_.First() == nullptr && !original) TurnAway(socket.fd(), place.error());
    return;  // closes the socket
  }
  ++parts_.services.connections;
  metrics.connections.Increment();
  auto connection =
      std::make_unique<Http1Connection>(*parts_.workers[index], parts_.lanes, std::move(socket),
                                        std::move(*place), std::move(original));
  Http1Connection* const running = connection.get();
  connections_[index].insert(running);
  Spawn(running->Run(), [this, index, owned = std::move(connection)]() mutable {
    connections_[index].erase(owned.get());
    owned.reset();
    parts_.threads[index]->upkeep().Want();  // who was idle had no buffer to give back
    parts_.services.metrics->connections.Decrement();
    --parts_.services.connections;
  });
}

}  // namespace recourse
