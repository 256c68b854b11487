// What a process is started with. Flags win over RECOURSE_* variables, those over these defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/ledger.h"
#include "policy/model/ledger_rules.h"
#include "proxy/base/ca_limits.h"
#include "proxy/base/clock.h"
#include "proxy/base/limits.h"

namespace recourse {

// What clients may take of this process, and how long they may take over it.
struct ClientBounds {
  std::size_t connections_max = limits::kConnectionsMax;
  std::size_t connections_per_peer_max = limits::kConnectionsPerPeerMax;
  std::size_t writes_max = limits::kWriteFlowsMax;
  std::size_t call_memory_bytes = 0;  // 0: by the memory that the process may use
  std::size_t requests_per_connection_max = limits::kRequestsPerConnectionMax;
  Millis head_timeout = limits::kHeadTimeout;          // from its first byte to its last
  Millis body_timeout = limits::kBodyTimeout;          // of waiting; what arrives gives time back
  Millis idle_timeout = limits::kClientIdleTimeout;    // between two requests
  Millis send_timeout = limits::kClientWriteTimeout;   // until the client takes a piece
  Millis stream_timeout = limits::kStreamIdleTimeout;  // silence of an answer or a tunnel
};

// Where traces go. Standard variables of OpenTelemetry stand in where no flag is given.
struct OtlpSettings {
  std::string endpoint;             // "http://collector:4318"; empty: no traces
  std::string headers_file;         // `Name: value` lines, e.g. a token; empty: none
  std::string ca_file;              // of the collector's certificate; empty: the system's
  double sample = 1;                // part of the traces that begin here
  std::string service_name;         // empty: the resource's, else "recourse"
  std::string resource_attributes;  // "team=shop,deployment.environment=prod"
};

// The CA that signs what agents are shown of intercepted backends.
struct CaSettings {
  std::string directory;             // empty: there is none
  Millis life = limits::kCaLife;     // of a certificate that is made here
  std::vector<std::string> bundles;  // files for agents; *.jks: Java key stores
  std::vector<std::string> system;   // files of the system's CAs; "none"
};

struct Config {
  std::string policy;
  std::string data;
  LedgerPlace ledger;  // what is empty is the policy's; without an address it is in `data`
  std::string listen = "127.0.0.1:19080";  // empty: a steward, which no agent calls
  std::string admin = "127.0.0.1:19081";
  std::string probes = "127.0.0.1:19082";
  // Where redirected connections come in, on the loopback addresses; 0: none do.
  std::uint16_t redirect_port = 0;
  bool watch_unguarded = false;  // connections of this network namespace that go past
  // The certificate of --listen with its key, and the CA of its clients; empty: no TLS, no mTLS.
  std::string tls_cert, tls_key, tls_client_ca;
  CaSettings ca;
  std::string pod;            // the one that this process runs in; empty: the ledger stands for it
  std::string ports_file;     // empty: not written
  std::string notify_socket;  // of the service manager; empty: there is none
  std::string admin_token_file;  // empty: there is no shared token
  std::string operators;         // file of who may use the admin port; empty: the shared token only
  // The certificate of --admin with its key, and the CA of its clients; empty: no TLS, no mTLS.
  std::string admin_tls_cert, admin_tls_key, admin_client_ca;
  std::vector<std::string> admin_hosts;  // names by which operators reach --admin
  std::string ledger_key_file;           // empty: DATA/ledger.key, made with the ledger
  std::string install_secret_file;       // empty: DATA/install.secret, made with the ledger
  // Signs the head of the ledger's hash chain every so often, for a file; empty: not signed, no
  // file.
  std::string ledger_head_key, ledger_head_file;
  Millis ledger_head_every{60'000};
  std::string access_log = "-";
  // Address space that the ledger may grow into; disk is used as it fills.
  std::uint64_t ledger_bytes_max = std::uint64_t{64} << 30;
  bool unsafe_fs = false;        // accept every file system under `data`
  ExpectedLedger expect_ledger;  // what must be in `data` already
  int threads = 1;
  Millis drain_timeout = limits::kDrainTimeout;
  ClientBounds bounds;
  OtlpSettings otlp;
  // How long reads are still served after the ledger latched, before the process drains and ends;
  // zero: until a signal.
  Millis latched_for = limits::kLatchedFor;
};

// Exit codes of the process, documented in the README. Those of the ledger are the nearest ones of
// sysexits.h, far from what shells and signals use.
inline constexpr int kExitOk = 0;
inline constexpr int kExitRuntime = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitPolicy = 3;
inline constexpr int kExitLatched = 74;    // EX_IOERR: a commit failed; writes were refused since
inline constexpr int kExitLedgerCut = 75;  // EX_TEMPFAIL: the ledger's file failed while mapped
inline constexpr int kExitLedger = 78;     // EX_CONFIG: the ledger is not usable as it is

// "ROWS" or "ROWS:HEAD" as `recourse ledger verify` prints them; nullopt for anything else.
std::optional<ExpectedLedger> ParseExpectedLedger(std::string_view text);

// Takes OTEL_EXPORTER_OTLP_ENDPOINT, _CERTIFICATE, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
// for what is not set. An endpoint that is meant for gRPC, or is switched off, is left alone.
void TakeOtelVariables(OtlpSettings& settings);

// Where a service manager wants to hear of this process (NOTIFY_SOCKET); empty: nowhere.
std::string NotifySocket();

// Files of CAs that the environment names, as an image does with some of its own.
std::vector<std::string> NamedCaFiles();

}  // namespace recourse
