// Upstream for writes: a fresh connection for each, opened while the ledger commits, or, where the
// policy lets it, one that carried another write just before.
#pragma once

#include "filters/upstream.h"
#include "proxy/net/message/upstream_stream.h"

namespace recourse {

// One per I/O thread. `via` is this instance's Via pseudonym.
class WriteUpstream final : public Upstream {
 public:
  WriteUpstream(IoThread& thread, UpstreamStreams& streams, std::string via)
      : thread_(thread), streams_(streams), via_(std::move(via)) {}

  std::unique_ptr<UpstreamConnection> Open(const Backend& backend) override;
  std::unique_ptr<UpstreamConnection> OpenForCall(std::shared_ptr<const Backend> backend) override;

 private:
  class Call;

  IoThread& thread_;
  UpstreamStreams& streams_;
  const std::string via_;
};

}  // namespace recourse
