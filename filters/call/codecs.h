// Which protocol a backend speaks: the one place that asks.
#pragma once

#include <memory>
#include <string_view>

#include "filters/codec.h"

namespace recourse {

const Codec& CodecOf(Protocol protocol);
inline const Codec& CodecOf(const Backend& backend) { return CodecOf(backend.protocol); }
// Of the calls of a tool, by what it is matched by; and of a call that was kept with that method.
const Codec& CodecOf(const Tool& tool);
const Codec& CodecOf(const Tool& tool, std::string_view method);

// Each backend in its protocol, over another Upstream. Of one I/O thread.
class CodecUpstream final : public Upstream {
 public:
  CodecUpstream(Upstream& plain, Timer& timer, const Clock& clock, Random& random)
      : parts_{plain, timer, clock, random} {}
  std::unique_ptr<UpstreamConnection> Open(const Backend& backend) override;
  std::unique_ptr<UpstreamConnection> OpenForCall(std::shared_ptr<const Backend> backend) override;

 private:
  const CodecParts parts_;
};

}  // namespace recourse
