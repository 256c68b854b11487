// The CA of `run --ca`, for as long as the process lives: made, renewed, read again, and told to
// the agents' bundle files.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/ca/ca_directory.h"
#include "proxy/config/config.h"
#include "proxy/net/tls/leaf_issuer.h"

namespace recourse {

// Thread-safe; blocks on files.
class CaRotation {
 public:
  // All outlive it.
  CaRotation(const CaSettings& settings, const Clock& clock, Random& random, LeafIssuer& minter)
      : settings_(settings),
        clock_(clock),
        random_(random),
        minter_(minter),
        written_(settings.bundles.size()) {}

  // Makes sure that what `policy` intercepts can be signed for. Call before it is used. Fails with
  // a line for people.
  FileResult<void> Prepare(const Policy& policy);
  // As Prepare for the policy in force, now and then: renews the CA, or takes what was put in its
  // place, and writes a bundle again that is no longer what was written. The log tells of what
  // cannot be used.
  void Look(const Policy& policy);

 private:
  FileResult<void> Keep(const Policy& policy);  // with mutex_ taken
  FileResult<void> WriteBundle(const PodCa& ca, std::size_t at);
  bool IsAsWritten(std::size_t at) const;
  void MendBundles();
  void Tell(const KeptCa& kept);

  const CaSettings& settings_;
  const Clock& clock_;
  Random& random_;
  LeafIssuer& minter_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::shared_ptr<const PodCa> used_;         // null: none yet
  std::vector<Digest> written_;               // of each bundle
  std::string problem_, problem_of_bundles_;  // that the log has told last
};

}  // namespace recourse
