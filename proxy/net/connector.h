// Opens TCP connections to backends.
#pragma once

#include <memory>

#include "policy/policy.h"
#include "proxy/base/error.h"
#include "proxy/net/io_thread.h"

namespace recourse {

// Whether `endpoint` is one of our own listeners; connecting there would be a loop.
class OwnListeners {
 public:
  void Add(Tcp::endpoint endpoint) { endpoints_.push_back(std::move(endpoint)); }
  bool Contains(const Tcp::endpoint& endpoint) const;

 private:
  std::vector<Tcp::endpoint> endpoints_;
};

// Tries the backend's addresses in order within its connect_timeout. Fails with kNotSent (and
// delivery kNotSent: nothing was sent), kLoop for our own listeners.
Task<Result<std::unique_ptr<Connection>>> Connect(IoThread& thread, const Backend& backend,
                                                  const OwnListeners& own);

}  // namespace recourse
