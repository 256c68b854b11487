// Opens connections to backends.
#pragma once

#include <memory>

#include "policy/model/policy.h"
#include "proxy/base/error.h"
#include "proxy/net/loop/io_thread.h"

namespace recourse {

// Whether `endpoint` is one of our own listeners; connecting there would be a loop.
class OwnListeners {
 public:
  void Add(Tcp::endpoint endpoint) { endpoints_.push_back(std::move(endpoint)); }
  // `local` is our end of the connection to `endpoint`: equal addresses mean this very host, by
  // whatever name or form of address it was reached.
  bool Contains(const Tcp::endpoint& endpoint, const Tcp::endpoint& local) const;

 private:
  std::vector<Tcp::endpoint> endpoints_;
};

// Tries the backend's addresses in order within its connect_timeout, name look-up and TLS handshake
// included, and not beyond `latest`; another address is tried only when one cannot be reached.
// Fails with delivery kNotSent: kNotSent, kAddressRefused by the backend's `addresses`, kLoop for
// our own listeners, kTlsCertificate, kTlsRefused, kTlsProtocol.
Task<Result<std::unique_ptr<Connection>>> Connect(IoThread& thread, const Backend& backend,
                                                  const OwnListeners& own,
                                                  MonoTime latest = MonoTime::max());

}  // namespace recourse
