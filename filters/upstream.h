// How filters reach a backend. Implemented by proxy/net; scripted in tests.
#pragma once

#include <memory>

#include "policy/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/error.h"
#include "proxy/base/http_message.h"
#include "proxy/base/task.h"

namespace recourse {

// A backend's answer to one attempt, read whole up to its cap.
struct Answer {
  HttpResponse response;
  bool body_complete = true;  // framing says so; an answer that ends with the connection is not
  bool until_close = false;   // incomplete only because nothing but a clean close framed it (F18)
  bool over_cap = false;      // the body was larger than answer_bytes_max; body holds the start
};

// One fresh connection to a backend, being opened or open. Belongs to one I/O thread.
class UpstreamConnection {
 public:
  virtual ~UpstreamConnection() = default;
  // Waits until the connection stands. Fails with kNotSent delivery only.
  virtual Task<Result<void>> Connected() = 0;
  // The address that it leads to, after Connected(); for the access log.
  virtual std::string_view Peer() const { return {}; }
  // Sends the request and reads the answer, then closes. Call once, after Connected().
  // On failure error().delivery() is the truth about what was sent: kNotSent only if the kernel
  // took no byte of the request, or if the backend said that its TLS handshake with us has failed.
  // Interim (1xx) answers are skipped; 101 ends the attempt.
  virtual Task<Result<Answer>> Exchange(const HttpRequest& request, MonoTime deadline,
                                        std::size_t answer_bytes_max) = 0;
};

class Upstream {
 public:
  virtual ~Upstream() = default;
  // Starts to connect at once (resolve, connect) and returns without waiting, so that the ledger
  // can commit meanwhile. Never reuses a connection: a stale one would make outcomes unknown.
  virtual std::unique_ptr<UpstreamConnection> Open(const Backend& backend) = 0;
};

}  // namespace recourse
