// The steps of a start that can fail for a reason that a person must see. They throw, at start
// only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "filters/ledger/ledger.h"
#include "policy/files/sources.h"
#include "policy/model/callers.h"
#include "proxy/admin/access/operator_store.h"
#include "proxy/base/clock.h"
#include "proxy/config/config.h"
#include "proxy/net/loop/io_thread.h"
#include "proxy/net/tls/tls_client.h"
#include "proxy/net/tls/tls_server.h"
#include "proxy/reload/policy_load.h"
#include "proxy/startup/drill_overrides.h"
#include "proxy/startup/ledger_secrets.h"

namespace recourse {

// What a process takes, once it has drained, until its ledger is free.
inline constexpr Millis kHandover{5'000};

// Ends the process with `exit_code` and one line for people.
class StartupError : public std::runtime_error {
 public:
  StartupError(int exit_code, const std::string& what)
      : std::runtime_error(what), exit_code(exit_code) {}
  const int exit_code;
};

// LoadPolicyFiles, but in a rehearsal.
PolicyLoader LoaderOf(const DrillOverrides* rehearsal);

// The policy in `sources`, which were read from `path`, and whom its approvals name. Prints every
// problem.
std::shared_ptr<const Policy> LoadPolicyOrThrow(const std::string& path,
                                                const PolicySources& sources,
                                                TlsClients& backends_tls, const PolicyLoader& load,
                                                std::vector<NamedApprover>& approvers);

// What a person got wrong about the addresses and the ports file. Makes nothing.
void JudgePlacesOrThrow(const Config& config);

// The same about the files that the ledger's secrets are in. Observe mode goes on without a ledger.
void JudgeSecretsOrThrow(const LedgerSecretFiles& secrets, Mode mode);

// As WorkInChildOfFirst, where other processes write into the ledger, too.
void LeaveFirstProcessIfShared(const Config& config, const Policy& policy);

// In observe mode a ledger that cannot be opened is logged, and stands in as MakeUnopenedLedger.
std::unique_ptr<Ledger> OpenLedgerOrThrow(const Config& config, LedgerSecretFiles& secrets,
                                          const Policy& policy, const Clock& clock,
                                          const DrillOverrides* rehearsal);

// The clock by which its rows are dated.
const Clock& ClockOf(Ledger& ledger, const Clock& own);
// Workloads that share a ledger share no callers by accident.
CallerIdentity UncertifiedOf(Ledger& ledger);

// The admin token in the file; empty without a path.
std::string ReadTokenOrThrow(const std::string& path);

// Takes the operators file, if there is one. Prints every problem, and warns of approvers that are
// nobody in it.
void StartOperatorsOrThrow(OperatorStore& desk, const Config& config,
                           const std::vector<NamedApprover>& approvers);
// Warns of an admin port that the network can listen to.
void WarnOfPlainAdmin(const Config& config, const Tcp::endpoint& endpoint);
// Warns of a policy that undoes, and leaves writes without a trace alone with themselves.
void WarnOfFlowsOfOneStep(const Policy& policy);

// The pseudonym of this process in Via, "1.1 recourse-1a2b3c4d", by which it knows a loop.
std::string MadeUpVia(Random& random);

TlsServerFiles TlsFilesOf(const Config& config);
TlsServerFiles AdminTlsFilesOf(const Config& config);
// Null when the files name no certificate, for plain HTTP. `flag` names them.
std::shared_ptr<const TlsServer> TlsServerOrThrow(const TlsServerFiles& files, const char* flag);

// The TLS of one of our ports, read again when its files change.
class ServerTls {
 public:
  // As TlsServerOrThrow.
  ServerTls(const TlsServerFiles& files, const char* flag);
  // As it was at the start; null: plain.
  const std::shared_ptr<const TlsServer>& First() const { return first_; }
  // What to use from now on; null: as before. The log tells of files that cannot be used. One
  // thread at a time.
  std::shared_ptr<const TlsServer> Refresh(FileState::Look look);

 private:
  const TlsServerFiles files_;
  const char* const flag_;
  FileState state_;
  const std::shared_ptr<const TlsServer> first_;
};

// Tells how to reach the three ports, to whoever reads the file; nothing without a path.
void WritePortsOrThrow(const std::string& path, std::uint16_t listen, std::uint16_t admin,
                       std::uint16_t probes);

// Waits that long for a signal that ends the process; true: it came.
bool IsEndedWithin(Millis pause);

// Call first: every thread inherits the mask.
void BlockSignals();

// A shell's usual limit of 1,024 files would be the real bound of connections. A quarter of the
// files is left for backends; who comes then is told so, instead of waiting in the listener's
// queue. What calls may hold follows from the memory of the process, unless it is given.
Config FittedToMachine(Config config);
void WarnOfFewFiles(const ClientBounds& wanted, const ClientBounds& fitted);

}  // namespace recourse
