// Speaks MCP over another Upstream: what an MCP server answers, in whatever form it comes, is one
// Answer (Answer::mcp). Other backends, and other requests than calls of the server's endpoint, go
// through unchanged.
#pragma once

#include "filters/upstream.h"
#include "proxy/base/random.h"

namespace recourse {

// Of one I/O thread. All outlive it.
//
// A call whose answer is a stream that was cut is taken up again (GET with Last-Event-ID) as long
// as its deadline and kMcpResumesMax allow, when the server gave an event id and a session. What
// ends without a final message fails with kUncertain delivery; a refusal over HTTP alone is an
// Answer without `mcp`.
class McpUpstream final : public Upstream {
 public:
  McpUpstream(Upstream& plain, Timer& timer, const Clock& clock, Random& random)
      : parts_{plain, timer, clock, random} {}
  std::unique_ptr<UpstreamConnection> Open(const Backend& backend) override;
  std::unique_ptr<UpstreamConnection> OpenForCall(std::shared_ptr<const Backend> backend) override;

  struct Parts {
    Upstream& plain;
    Timer& timer;
    const Clock& clock;
    Random& random;
  };

 private:
  const Parts parts_;
};

// The same reading of an answer to `call` that was recorded on its way to a client, framing and
// all. Fails as an exchange does.
Result<Answer> AsMcpAnswer(Answer recorded, const HttpRequest& call);

}  // namespace recourse
