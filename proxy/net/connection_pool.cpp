#include "proxy/net/connection_pool.h"

#include <algorithm>

#include "proxy/base/limits.h"
#include "proxy/net/tls_client.h"

namespace recourse {
namespace {

// Readable means end of stream or bytes nobody asked for: both end its use (http.md C2, F16).
bool IsQuiet(Connection& connection) {
  if (connection.tls != nullptr) return connection.tls->Peek().want == TlsWant::kRead;
  char byte;
  const ssize_t got = ::recv(connection.socket(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool IsOf(const Backend& backend, const Connection& connection) {
  if (backend.tls == nullptr) return connection.tls == nullptr;
  return connection.tls != nullptr && backend.tls->Made(*connection.tls);
}

}  // namespace

std::unique_ptr<Connection> ConnectionPool::Take(const Backend& backend, MonoTime now) {
  const auto found = backends_.find(backend.name);
  if (found == backends_.end()) return nullptr;
  std::vector<Idle>& stack = found->second;
  for (std::size_t looks = 0; looks < limits::kIdleLooksMax && !stack.empty(); ++looks) {
    Idle idle = std::move(stack.back());
    stack.pop_back();
    --size_;
    if (idle.until <= now || !IsOf(backend, *idle.connection)) continue;
    if (IsQuiet(*idle.connection)) return std::move(idle.connection);
  }
  return nullptr;
}

void ConnectionPool::Give(const Backend& backend, std::unique_ptr<Connection> connection,
                          Millis idle, MonoTime now) {
  if (size_ >= limits::kIdleUpstreamMax) return;
  connection->deadline.Disarm();
  backends_[backend.name].push_back({std::move(connection), now + idle});
  ++size_;
  thread_.upkeep().Want();
}

bool ConnectionPool::Sweep() {
  const MonoTime now = thread_.clock().Now();
  std::size_t left = limits::kIdleUpstreamClosedAtOnceMax;
  for (auto& [name, stack] : backends_) {
    size_ -= std::erase_if(
        stack, [&](const Idle& idle) { return idle.until <= now && left > 0 && left-- > 0; });
  }
  CloseSome(left);
  return size_ > 0 || !closing_.empty();
}

bool ConnectionPool::Clear() {
  for (auto& [name, stack] : backends_) {
    for (Idle& idle : stack) closing_.push_back(std::move(idle.connection));
  }
  backends_.clear();
  size_ = 0;
  const bool had_any = !closing_.empty();
  CloseSome(limits::kIdleUpstreamClosedAtOnceMax);
  return had_any;
}

void ConnectionPool::CloseSome(std::size_t left) {
  closing_.resize(closing_.size() - std::min(left, closing_.size()));
}

}  // namespace recourse
