#include "proxy/exchange/connection_limiter.h"

#include <algorithm>
#include <array>

#include "filters/call/answers.h"
#include "proxy/net/http1/message_head.h"

namespace recourse {

std::expected<ConnectionLimiter::Place, ConnectionLimiter::Full> ConnectionLimiter::Enter(
    const Address& peer) {
  const std::uint64_t key = KeyOf(peer);
  const std::lock_guard lock(mutex_);
  const auto known = by_peer_.find(key);
  if (known != by_peer_.end() && known->second >= most_of_peer_) {
    return std::unexpected(Full::kPeer);
  }
  if (taken_ >= most_) return std::unexpected(Full::kProcess);
  ++by_peer_[key];
  ++taken_;
  return Place(*this, key);
}

void ConnectionLimiter::Place::GiveBack() {
  if (gate_ == nullptr) return;
  const std::lock_guard lock(gate_->mutex_);
  const auto found = gate_->by_peer_.find(peer_);
  if (--found->second == 0) gate_->by_peer_.erase(found);
  --gate_->taken_;
  gate_ = nullptr;
}

std::uint64_t ConnectionLimiter::KeyOf(const Address& peer) {
  if (peer.is_v4()) return peer.to_v4().to_uint();
  const auto bytes = peer.to_v6().to_bytes();
  const bool mapped = peer.to_v6().is_v4_mapped();
  std::uint64_t key = 0;
  std::for_each(bytes.begin() + (mapped ? 12 : 0), bytes.begin() + (mapped ? 16 : 8),
                [&key](unsigned char byte) { key = key << 8 | byte; });
  return key;
}

void TurnAway(int socket, ConnectionLimiter::Full reason) {
  const WriteAnswer problem =
      MakeProblem(ErrorCode::kOverloaded, reason == ConnectionLimiter::Full::kProcess
                                              ? "too many connections are open"
                                              : "too many connections of this address are open");
  std::array<char, 2048> bytes;
  HeadWriter writer(bytes.data(), bytes.size());
  writer.StartResponse(problem.response.status, problem.response.reason);
  for (const auto& [name, value] : problem.response.headers) writer.Add(name, value);
  writer.ContentLength(problem.response.body.size());
  writer.ConnectionClose();
  writer.End();
  if (!writer.ok()) return;
  const std::string answer = std::string(writer.view()) + problem.response.body;
  (void)::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace recourse
