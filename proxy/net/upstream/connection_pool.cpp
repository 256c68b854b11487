#include "proxy/net/upstream/connection_pool.h"

#include <algorithm>

#include "proxy/base/limits.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {
namespace {

// Readable means end of stream or bytes nobody asked for: both end its use.
bool IsQuiet(Connection& connection) {
  if (connection.tls != nullptr) {
    return connection.tls->Peek().want == TlsWant::kRead && !connection.tls->HasPart();
  }
  char byte;
  const ssize_t got = KernelRecv(connection.socket(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool IsOf(const Backend& backend, const Connection& connection) {
  if (backend.tls == nullptr) return connection.tls == nullptr;
  return connection.tls != nullptr && backend.tls->Made(*connection.tls);
}

}  // namespace

std::unique_ptr<Connection> ConnectionPool::Take(const Backend& backend, MonoTime now) {
  std::vector<Idle>& stack = StackOf(backend);
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
  if (connection->socket() >= thread_.files().short_from()) return;
  connection->deadline.Disarm();
  StackOf(backend).push_back({std::move(connection), now + idle});
  ++size_;
  thread_.upkeep().Want();
}

// Mostly that of the backend that was asked for last.
std::vector<ConnectionPool::Idle>& ConnectionPool::StackOf(const Backend& backend) {
  if (last_.backend != &backend) last_ = {&backend, &backends_[&backend]};
  return *last_.stack;
}

bool ConnectionPool::Sweep() {
  const MonoTime now = thread_.clock().Now();
  std::size_t left = limits::kIdleUpstreamClosedAtOnceMax;
  for (auto& [backend, stack] : backends_) {
    size_ -= std::erase_if(
        stack, [&](const Idle& idle) { return idle.until <= now && left > 0 && left-- > 0; });
  }
  CloseSome(left);
  return size_ > 0 || !closing_.empty();
}

bool ConnectionPool::Clear() {
  for (auto& [backend, stack] : backends_) {
    for (Idle& idle : stack) closing_.push_back(std::move(idle.connection));
  }
  backends_.clear();
  last_ = {};
  size_ = 0;
  const bool had_any = !closing_.empty();
  CloseSome(limits::kIdleUpstreamClosedAtOnceMax);
  return had_any;
}

void ConnectionPool::CloseSome(std::size_t left) {
  closing_.resize(closing_.size() - std::min(left, closing_.size()));
}

}  // namespace recourse
