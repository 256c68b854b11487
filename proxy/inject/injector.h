// `recourse inject`: the mutating webhook as a process.
#pragma once

#include <string>

#include "proxy/base/clock.h"
#include "proxy/inject/cluster/certificate_keeper.h"
#include "proxy/inject/cluster/kube_api.h"

namespace recourse {

struct InjectorConfig {
  std::string pod_template;              // file of pod_template.h
  std::string tls_cert, tls_key;         // PEM; read again when they change, as is the template
  std::string listen = "0.0.0.0:19443";  // for the API server, over TLS
  std::string probes = "0.0.0.0:19082";  // /healthz, /readyz and /metrics, plain
  std::string ports_file;                // empty: not written
  Millis drain_timeout{10'000};
  KubeApiConfig api;   // without a url API servers are asked nothing
  OwnCertificate own;  // with a Secret tls_cert and tls_key are written here
};

// Blocks until SIGTERM or SIGINT, and then until the API servers have turned to others, or
// `drain_timeout` has passed; a second signal skips that. Gives the exit code; what went wrong is
// one line on stderr. Call on the main thread, once.
int RunInjector(const InjectorConfig& config);

}  // namespace recourse
