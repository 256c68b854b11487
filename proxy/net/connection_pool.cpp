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
  const ssize_t got = ::recv(connection.socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool IsOf(const Backend& backend, const Connection& connection) {
  if (backend.tls == nullptr) return connection.tls == nullptr;
  return connection.tls != nullptr && backend.tls->Made(*connection.tls);
}

}  // namespace

std::unique_ptr<Connection> ConnectionPool::Take(const Backend& backend) {
  const auto found = idle_.find(backend.name);
  if (found == idle_.end()) return nullptr;
  auto& stack = found->second;
  const MonoTime now = thread_.clock().Now();
  while (!stack.empty()) {
    Idle idle = std::move(stack.back());
    stack.pop_back();
    --size_;
    if (idle.until <= now) continue;
    if (IsOf(backend, *idle.connection) && IsQuiet(*idle.connection))
      return std::move(idle.connection);
  }
  return nullptr;
}

void ConnectionPool::Give(const Backend& backend, std::unique_ptr<Connection> connection,
                          Millis idle) {
  auto& stack = idle_[backend.name];
  if (stack.size() >= limits::kIdleUpstreamPerBackendMax) return;
  const MonoTime now = thread_.clock().Now();
  connection->deadline.Disarm();
  stack.push_back({std::move(connection), now + idle});
  ++size_;
}

void ConnectionPool::Sweep() {
  const MonoTime now = thread_.clock().Now();
  for (auto& [backend, stack] : idle_) {
    size_ -= std::erase_if(stack, [&](const Idle& idle) { return idle.until <= now; });
  }
}

void ConnectionPool::Clear() {
  idle_.clear();
  size_ = 0;
}

}  // namespace recourse
