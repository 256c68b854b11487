// The injector's own certificate: signed by a CA that a Secret keeps for all replicas, which API
// servers learn of from the configurations of the webhooks.
#pragma once

#include <memory>
#include <string>

#include "proxy/base/clock.h"
#include "proxy/base/random.h"
#include "proxy/config/files.h"
#include "proxy/inject/cluster/kube_api.h"
#include "proxy/inject/cluster/webhook_ca.h"

namespace recourse {

struct OwnCertificate {
  std::string secret;                // in the pod's namespace; empty: certificates come from others
  std::string host;                  // that API servers ask for: NAME.NAMESPACE.svc
  std::string mutating, validating;  // names of the configurations
  Millis ca_life{365LL * 86'400'000};
};

// Blocking; one thread.
class CertificateKeeper {
 public:
  struct Files {
    std::string certificate, key;  // written here, for whoever watches them
  };
  // All outlive it.
  CertificateKeeper(const KubeApi& api, const OwnCertificate& wish, Files files, const Clock& clock,
                    Random& random)
      : api_(api), wish_(wish), files_(std::move(files)), clock_(clock), random_(random) {}

  // Reads the Secret, renews what ends in it and what it signed, and tells API servers. Fails with
  // a line for people; then it holds what it held.
  FileResult<void> Look();
  // When nothing is signed any more unless Look() succeeds before.
  WallTime end() const { return end_; }

 private:
  FileResult<WebhookCas> ReadAndRenew();
  FileResult<void> Sign(const WebhookCas& cas);
  FileResult<void> Publish(const std::string& kind, const std::string& name,
                           const std::string& trusted);

  const KubeApi& api_;
  const OwnCertificate& wish_;
  const Files files_;
  const Clock& clock_;
  Random& random_;
  std::string published_;  // what all configurations had when they were looked at last
  std::string signed_by_;
  WallTime renew_at_{}, end_{};
};

}  // namespace recourse
