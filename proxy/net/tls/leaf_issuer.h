// Certificates for intercepted hosts, made when they are first needed.
#pragma once

#include <expected>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "proxy/base/clock.h"
#include "proxy/base/random.h"
#include "proxy/net/tls/pod_ca.h"
#include "proxy/net/tls/tls_server.h"

namespace recourse {

// Thread-safe. All leaves share one key: it never leaves the process, whose memory would give all
// of them away at once anyhow, so a key per leaf would only cost more (bench/README.md).
class LeafIssuer {
 public:
  // Both outlive it.
  LeafIssuer(const Clock& clock, Random& random) : clock_(clock), random_(random) {}

  // Signs from now on; what was made before is forgotten.
  void Use(std::shared_ptr<const PodCa> ca);

  // What a client of `host` is shown, a name in lower case or an address without brackets: valid
  // from a little ago, for at most a day, and never longer than the CA. Made anew before it ends.
  // Fails with a sentence for people.
  std::expected<std::shared_ptr<const TlsServer>, std::string> For(const std::string& host);

 private:
  struct Leaf {
    std::string host;
    std::shared_ptr<const TlsServer> server;
    WallTime begin, renew_at;
  };
  std::expected<Leaf, std::string> Mint(const std::string& host);  // with mutex_ taken

  const Clock& clock_;
  Random& random_;
  std::mutex mutex_;  // taken once per intercepted connection
  std::shared_ptr<const PodCa> ca_;
  KeyPtr key_;
  std::list<Leaf> leaves_;  // most recently used first
  std::unordered_map<std::string_view, std::list<Leaf>::iterator> by_host_;  // views into leaves_
};

// A certificate for `host` alone, signed. Null when it may not be made: no such name, or OpenSSL
// fails.
X509Ptr MintLeaf(const PodCa& ca, EVP_PKEY& key, const std::string& host, WallTime now,
                 Random& random);

}  // namespace recourse
