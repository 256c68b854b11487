// Upstream for writes: a fresh connection for each, opened while the ledger commits, or, where the
// policy lets it, one that carried another write just before.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "filters/upstream.h"
#include "proxy/net/upstream/connector.h"

namespace recourse {

// One per I/O thread. `via` is this instance's Via pseudonym.
class WriteUpstream final : public Upstream {
 public:
  WriteUpstream(IoThread& thread, const OwnListeners& own, std::string via)
      : thread_(thread), own_(own), via_(std::move(via)) {}

  std::unique_ptr<UpstreamConnection> Open(const Backend& backend) override;
  std::unique_ptr<UpstreamConnection> OpenForCall(std::shared_ptr<const Backend> backend) override;

  // Closes kept connections that have been idle too long; upkeep of the thread. True: some are
  // left.
  bool Sweep();
  // Closes all that are kept, and has those in use closed after it: what the policy or a
  // certificate now says was not asked when they were opened, or no files are left. False: none
  // was kept.
  bool Clear();

 private:
  class Call;
  struct Kept {
    std::shared_ptr<const Backend> backend;  // so that its address means no other one meanwhile
    std::unique_ptr<Connection> connection;
    MonoTime until;
  };
  // A kept connection that the loop heard no end of, or null. Who uses it looks at it first.
  std::unique_ptr<Connection> Take(const Backend& backend);
  void Keep(std::shared_ptr<const Backend> backend, std::unique_ptr<Connection> connection,
            Millis idle);

  IoThread& thread_;
  const OwnListeners& own_;
  const std::string via_;
  std::unordered_map<const Backend*, std::vector<Kept>> kept_;  // newest last
  std::uint64_t era_ = 0;                                       // ends with each Clear()
};

}  // namespace recourse
