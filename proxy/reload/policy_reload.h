// Brings a changed policy into force while the process runs, wholly or not at all.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/files/sources.h"
#include "proxy/base/clock.h"
#include "proxy/ca/ca_rotation.h"
#include "proxy/net/tls/tls_client.h"
#include "proxy/reload/policy_archive.h"
#include "proxy/reload/policy_versions.h"
#include "proxy/telemetry/metrics.h"

namespace recourse {

struct ReloadReport {
  // kAnnounced: in force as soon as the other processes of a shared ledger know it.
  enum class Result : std::uint8_t { kNone, kReloaded, kUnchanged, kRefused, kAnnounced };
  Result result = Result::kNone;
  std::string version;  // in force afterwards
  std::string trigger;  // start, signal, file, api, retry
  std::int64_t wall_ms = 0;
  std::vector<std::string> problems;  // why it was refused, as file:line:column texts
};
std::string_view NameOf(ReloadReport::Result result);

// Why `policy` cannot follow `running` without a restart, empty when it can.
std::string WhyNotTaken(const Policy& policy, const Policy& running);

// Start() before anything runs; the rest on any thread but an I/O thread.
class PolicyReloader {
 public:
  struct Parts {
    std::string path;
    PolicyVersions& versions;
    TlsClients& tls;
    CaRotation& ca;
    std::string archive;  // its directory
    PolicyLoader load;
    Ledger& ledger;
    Metrics& metrics;
    const Clock& clock;
    // Makes the policy that of every request that begins from now on. Returns when all I/O threads
    // have taken it.
    std::function<void(std::shared_ptr<const Policy>)> publish;
    // Has Look() called soon; thread-safe.
    std::function<void()> look_soon;
  };
  // `first` are the files of the policy that the process was started with.
  PolicyReloader(Parts parts, const PolicySources& first);

  // Remembers the first policy, and says which open operations it leaves without their tool or
  // backend. Where other processes of a shared ledger have another one it blocks for
  // kPolicyLearned, until they know this one. Fails with a line for people.
  FileResult<void> Start(const PolicySources& first);

  // Reads the files and takes what they say. A policy with any error changes nothing.
  ReloadReport Reload(std::string_view trigger);
  // As Reload once the files have changed and two looks in a row saw the same bytes, and now and
  // then while the last policy is refused: what was missing may be there. The return value says
  // how long to wait until the next look.
  Millis Look();
  // Work of another process has become this one's: what that began under is looked for.
  void TakeOver();
  // No reload from now on; waits for the one at work.
  void Close();

  ReloadReport last() const;
  const PolicyVersions& versions() const { return parts_.versions; }
  const std::string& path() const { return parts_.path; }

 private:
  ReloadReport Take(const PolicySources& sources, std::string_view trigger);
  FileResult<void> Remember(const Policy& policy, const std::vector<PolicySource>& files,
                            PolicyChange::Cause cause);
  void Report(const ReloadReport& report);
  // The keys of callers' tokens, which may change while the policy does not.
  void ReadCallerKeys(const Policy& policy);
  void CountOrphans();
  // Finds policies that others have, or had. False: the ledger cannot be asked.
  bool LearnOthers();
  // As Look(), of the files and of the others.
  Millis LookAtFiles();
  Millis LookForOthers();
  void PublishOthers();
  bool MayOthersLack(const std::string& version);
  void NoteInForce(const std::string& version);
  // Whether other processes have to learn it before it is in force here: what is begun under it may
  // be repeated at them.
  bool IsAnnounced(const std::string& version, std::string_view trigger);
  // What the group was told of does not come: the policy in force goes on.
  void TakeBack(const Policy& running);
  PolicyVersions::Loaded LoadOld(const OpenGroup& open);
  void LoadRecent(const Policy& current);
  static Digest Judge(const PolicySources& sources);

  const Parts parts_;
  SharedLedgerView* const shared_;  // null: the ledger is of one process
  PolicyArchive archive_;           // guarded by work_mutex_

  mutable std::mutex report_mutex_;
  ReloadReport last_;  // guarded by report_mutex_

  std::mutex work_mutex_;           // held while a reload is at work
  bool is_closed_ = false;          // guarded by work_mutex_
  Digest tried_{};                  // guarded by work_mutex_: what was judged last
  std::optional<Digest> seen_;      // guarded by work_mutex_: changed files, seen by one look
  MonoTime counted_{};              // guarded by work_mutex_
  MonoTime taken_{};                // guarded by work_mutex_: when files were last judged
  MonoTime learned_{};              // guarded by work_mutex_: when others' policies were asked for
  bool has_new_others_ = false;     // guarded by work_mutex_: which are not published yet
  std::set<std::string> in_force_;  // guarded by work_mutex_: in the group, as it was asked last
  struct Announced {
    std::string version, trigger;
    MonoTime due;
  };
  std::optional<Announced> announced_;  // guarded by work_mutex_
  bool is_told_ = false;  // guarded by work_mutex_: the group knows of one that is not in force
  std::set<std::string> warned_;  // guarded by work_mutex_: orphans that the log has named
  std::string keys_problem_;      // guarded by work_mutex_: that the log has named
};

}  // namespace recourse
