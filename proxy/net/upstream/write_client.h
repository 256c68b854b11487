// Upstream for writes: a fresh connection for each, opened while the ledger commits, or, where the
// policy lets it, one that carried another write just before.
#pragma once

#include <vector>

#include "filters/upstream.h"
#include "proxy/net/loop/deadline_wheel.h"
#include "proxy/net/message/upstream_stream.h"

namespace recourse {

// One per I/O thread. `via` is this instance's Via pseudonym.
class WriteUpstream final : public Upstream {
 public:
  WriteUpstream(IoThread& thread, UpstreamStreams& streams, std::string via)
      : thread_(thread),
        streams_(streams),
        via_(std::move(via)),
        look_(
            thread.wheel(), [](void* self) { static_cast<WriteUpstream*>(self)->Look(); }, this) {}

  std::unique_ptr<UpstreamConnection> Open(const Backend& backend) override;
  std::unique_ptr<UpstreamConnection> OpenForCall(std::shared_ptr<const Backend> backend) override;
  // When the thread has ended, before others may send what it has sent: what is not acknowledged of
  // that does not arrive.
  void DropSent();

 private:
  class Call;
  void Look();

  IoThread& thread_;
  UpstreamStreams& streams_;
  const std::string via_;
  std::vector<Call*> sent_;  // under a permit, and perhaps not acknowledged
  Deadline look_;            // at those
};

}  // namespace recourse
