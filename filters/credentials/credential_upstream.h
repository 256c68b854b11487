// Gives requests to a backend the credentials that the policy has for it, and takes those out of
// its answers: nobody above it ever has them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filters/credentials/credentials.h"
#include "filters/credentials/token_source.h"
#include "filters/upstream.h"

namespace recourse {

// Why an answer is held back.
inline constexpr std::string_view kEncodedAnswer =
    "its answer is encoded, though it was asked for as it is, so that nobody sees whether a "
    "credential stands in it";

// Of one I/O thread. A field of that name in a request stays: `credentials` of an undo or an
// approval have set it, as agents' own never come so far.
class CredentialUpstream final : public Upstream {
 public:
  // All outlive it.
  CredentialUpstream(Upstream& plain, ReadSecret read_secret, TokenCache& tokens,
                     Executor& executor, const Clock& clock)
      : plain_(plain),
        read_secret_(std::move(read_secret)),
        spent_(tokens.spent()),
        tokens_({plain, tokens, executor, clock, read_secret_}) {}

  std::unique_ptr<UpstreamConnection> Open(const Backend& backend) override;
  std::unique_ptr<UpstreamConnection> OpenForCall(std::shared_ptr<const Backend> backend) override;

  // What such a connection adds to a request, for who sends one past it. Fails with kNotSent, and
  // tells operators why.
  Task<Result<ReadCredentials>> CredentialsFor(const Backend& backend);

 private:
  // What takes out all that the backend was or may be sent.
  EchoScrubber ScrubberOf(const Backend& backend);

  Upstream& plain_;
  const ReadSecret read_secret_;
  SpentSecrets& spent_;
  // The last one of each backend: it takes longer to make than to compare.
  std::map<std::string, std::pair<std::vector<std::string>, EchoScrubber>> scrubbers_;
  TokenSource tokens_;
};

}  // namespace recourse
