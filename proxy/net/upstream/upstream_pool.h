// Streams to backends over connections; the idle ones, newest first, per backend. One per I/O
// thread, for reads and writes.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "proxy/net/upstream/socket_stream.h"

namespace recourse {

class UpstreamPool final : public UpstreamStreams {
 public:
  // Both outlive it.
  UpstreamPool(IoThread& thread, const OwnListeners& own) : thread_(thread), own_(own) {}

  // A kept one was not closed and has nothing unread. One made under another TLS set-up than the
  // backend's present one is not given out. For a read each is looked at, however short it was
  // idle: what came behind the last answer would be read as the next one. For a write it is enough
  // that the loop heard of no end: who sends looks again, once the ledger has committed.
  std::unique_ptr<UpstreamStream> Open(const Backend& backend, Terms terms, MonoTime now,
                                       std::shared_ptr<const Backend> held = nullptr) override;
  void Give(std::unique_ptr<UpstreamStream> stream, Millis idle, MonoTime now) override;
  // Closes what has been idle too long, a bounded number; upkeep of the thread. True: some are
  // left.
  bool Sweep();
  // Gives none of them out any more, nor keeps those in use now, and closes a bounded number, the
  // others with the sweeps: what the policy or a certificate now says was not asked when they were
  // opened, or there are no files left. False: none was kept.
  bool Clear();
  std::size_t size() const { return sizes_[0] + sizes_[1]; }

 private:
  struct Idle {
    std::unique_ptr<SocketStream> stream;
    MonoTime until;
  };
  using Stacks = std::array<std::vector<Idle>, 2>;  // by For

  std::unique_ptr<SocketStream> Take(const Backend& backend, For use, MonoTime now);
  Stacks& StacksOf(const Backend& backend);
  void CloseSome(std::size_t left);

  IoThread& thread_;
  const OwnListeners& own_;
  std::unordered_map<const Backend*, Stacks> backends_;
  struct {
    const Backend* backend = nullptr;
    Stacks* stacks = nullptr;
  } last_;
  std::array<std::size_t, 2> sizes_{};  // by For
  std::uint64_t era_ = 0;               // ends with each Clear()
  std::vector<std::unique_ptr<SocketStream>> closing_;
};

}  // namespace recourse
