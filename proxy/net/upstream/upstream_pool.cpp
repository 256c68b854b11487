#include "proxy/net/upstream/upstream_pool.h"

#include <algorithm>

#include "proxy/base/limits.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {
namespace {

bool IsOf(const Backend& backend, const Connection& connection) {
  if (backend.tls == nullptr) return connection.tls == nullptr;
  return connection.tls != nullptr && backend.tls->Made(*connection.tls);
}

bool IsUsable(SocketStream& stream, UpstreamStreams::For use) {
  if (use == UpstreamStreams::For::kRead) return stream.Look() == UpstreamStream::Sight::kQuiet;
  return !stream.connection().descriptor.may_read() ||
         stream.Look() != UpstreamStream::Sight::kLeft;
}

constexpr std::size_t At(UpstreamStreams::For use) { return static_cast<std::size_t>(use); }

}  // namespace

std::unique_ptr<UpstreamStream> UpstreamPool::Open(const Backend& backend, Terms terms,
                                                   MonoTime now,
                                                   std::shared_ptr<const Backend> held) {
  if (terms.takes_kept) {
    if (auto kept = Take(backend, terms.use, now)) {
      kept->Reuse(terms);
      return kept;
    }
  }
  return std::make_unique<SocketStream>(
      thread_, own_, SocketStream::Origin{&backend, std::move(held), terms, era_});
}

std::unique_ptr<SocketStream> UpstreamPool::Take(const Backend& backend, For use, MonoTime now) {
  std::vector<Idle>& stack = StacksOf(backend)[At(use)];
  for (std::size_t looks = 0; looks < limits::kIdleLooksMax && !stack.empty(); ++looks) {
    Idle idle = std::move(stack.back());
    stack.pop_back();
    --sizes_[At(use)];
    if (idle.until <= now || !IsOf(backend, idle.stream->connection())) continue;
    if (IsUsable(*idle.stream, use)) return std::move(idle.stream);
  }
  return nullptr;
}

void UpstreamPool::Give(std::unique_ptr<UpstreamStream> stream, Millis idle, MonoTime now) {
  // It was opened here.
  std::unique_ptr<SocketStream> given(static_cast<SocketStream*>(stream.release()));
  given->Rest();
  const SocketStream::Origin& origin = given->origin();
  if (!origin.terms.is_kept || origin.era != era_) return;
  std::size_t& size = sizes_[At(origin.terms.use)];
  if (size >= limits::kIdleUpstreamMax) return;
  if (given->connection().socket() >= thread_.files().short_from()) return;
  StacksOf(*origin.backend)[At(origin.terms.use)].push_back({std::move(given), now + idle});
  ++size;
  thread_.upkeep().Want();
}

// Mostly those of the backend that was asked for last.
UpstreamPool::Stacks& UpstreamPool::StacksOf(const Backend& backend) {
  if (last_.backend != &backend) last_ = {&backend, &backends_[&backend]};
  return *last_.stacks;
}

bool UpstreamPool::Sweep() {
  const MonoTime now = thread_.clock().Now();
  std::size_t left = limits::kIdleUpstreamClosedAtOnceMax;
  for (auto& [backend, stacks] : backends_) {
    for (std::size_t use = 0; use < stacks.size(); ++use) {
      sizes_[use] -= std::erase_if(stacks[use], [&](const Idle& idle) {
        return idle.until <= now && left > 0 && left-- > 0;
      });
    }
  }
  CloseSome(left);
  return size() > 0 || !closing_.empty();
}

bool UpstreamPool::Clear() {
  const bool had_any = size() > 0 || !closing_.empty();
  for (auto& [backend, stacks] : backends_) {
    for (auto& stack : stacks) {
      for (Idle& idle : stack) closing_.push_back(std::move(idle.stream));
    }
  }
  backends_.clear();
  last_ = {};
  sizes_ = {};
  ++era_;
  CloseSome(limits::kIdleUpstreamClosedAtOnceMax);
  return had_any;
}

void UpstreamPool::CloseSome(std::size_t left) {
  closing_.resize(closing_.size() - std::min(left, closing_.size()));
}

}  // namespace recourse
