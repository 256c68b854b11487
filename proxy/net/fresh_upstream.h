// Upstream for writes: a fresh connection for each, opened while the ledger commits.
#pragma once

#include "filters/upstream.h"
#include "proxy/net/connector.h"

namespace recourse {

// One per I/O thread. `via` is this instance's Via pseudonym.
class FreshUpstream final : public Upstream {
 public:
  FreshUpstream(IoThread& thread, const OwnListeners& own, std::string via)
      : thread_(thread), own_(own), via_(std::move(via)) {}

  std::unique_ptr<UpstreamConnection> Open(const Backend& backend) override;

 private:
  IoThread& thread_;
  const OwnListeners& own_;
  const std::string via_;
};

}  // namespace recourse
