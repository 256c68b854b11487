#include "proxy/reload/policy_reload.h"

#include <poll.h>

#include <algorithm>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/executor.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::string_view kRetry = "retry";
constexpr int kStartLookMs = 100;

std::vector<std::string> ErrorsOf(const std::vector<PolicyProblem>& problems) {
  std::vector<std::string> errors;
  std::size_t more = 0;
  for (const PolicyProblem& problem : problems) {
    if (problem.severity != PolicyProblem::Severity::kError) continue;
    if (errors.size() < limits::kPolicyProblemsTold) {
      errors.push_back(problem.ToString());
    } else {
      ++more;
    }
  }
  if (more > 0) {
    errors.push_back(std::to_string(more) + " more errors: see `recourse policy check`");
  }
  return errors;
}

std::string_view Advice(Orphaned reason) {
  switch (reason) {
    case Orphaned::kToolGone:
      return "their repeats wait for them; put the tool back, so that they can be settled by it";
    case Orphaned::kBackendGone:
      return "their repeats cannot reach it any more; put the backend back until they are settled";
    case Orphaned::kPolicyLost:
      return "a repeat that the policy in force names otherwise is not found, and is sent again; "
             "put "
             "the file back and restart, or settle them now (`recourse operations settle`)";
    default:
      return "they stay with the old address; their repeats go to the new one only once settled";
  }
}

}  // namespace

std::string_view NameOf(ReloadReport::Result result) {
  switch (result) {
    case ReloadReport::Result::kNone:
      return "none";
    case ReloadReport::Result::kReloaded:
      return "reloaded";
    case ReloadReport::Result::kUnchanged:
      return "unchanged";
    case ReloadReport::Result::kRefused:
      return "refused";
    case ReloadReport::Result::kAnnounced:
      return "announced";
  }
  return "none";
}

std::string WhyNotTaken(const Policy& policy, const Policy& running) {
  if (policy.mode != running.mode) {
    return "mode: cannot change while the process runs; restart it to change the mode";
  }
  if (policy.ledger_place == running.ledger_place) return {};
  return "ledger: url, password_file, group and wait cannot change while the process runs; restart "
         "it to change them";
}

PolicyReloader::PolicyReloader(Parts parts, const PolicySources& first)
    : parts_(std::move(parts)),
      shared_(dynamic_cast<SharedLedgerView*>(&parts_.ledger)),
      archive_(parts_.archive, parts_.load, parts_.ledger),
      tried_(Judge(first)) {
  if (shared_ != nullptr) parts_.versions.Share(parts_.look_soon);
  last_.result = ReloadReport::Result::kReloaded;
  last_.trigger = "start";
  last_.version = parts_.versions.Current()->version;
  last_.wall_ms = ToUnixMillis(parts_.clock.WallNow());
}

FileResult<void> PolicyReloader::Start(const PolicySources& first) {
  const std::lock_guard work(work_mutex_);
  const auto policy = parts_.versions.Current();
  if (auto kept = Remember(*policy, first.files, PolicyChange::Cause::kStart); !kept) return kept;
  parts_.metrics.PolicyInForce(policy->version, parts_.clock.WallNow());
  LoadRecent(*policy);
  if (policy->mode != Mode::kObserve && MayOthersLack(policy->version)) {
    Log(LogLevel::kInfo, "other pods have another policy; this one waits until they know its own",
        {{"ms", std::to_string(limits::kPolicyLearned.count())}});
    const MonoTime due = parts_.clock.Now() + limits::kPolicyLearned;
    while (parts_.clock.Now() < due) (void)::poll(nullptr, 0, kStartLookMs);
    (void)LearnOthers();
  }
  NoteInForce(policy->version);
  has_new_others_ = false;  // whoever serves begins with them
  CountOrphans();
  return {};
}

void PolicyReloader::TakeOver() {
  const std::lock_guard work(work_mutex_);
  if (is_closed_) return;
  (void)LearnOthers();
  CountOrphans();
}

ReloadReport PolicyReloader::Reload(std::string_view trigger) {
  const std::lock_guard work(work_mutex_);
  return Take(ReadPolicyTwice(parts_.path), trigger);
}

Millis PolicyReloader::Look() {
  const std::lock_guard work(work_mutex_);
  if (is_closed_) return limits::kPolicyPoll;
  ReadCallerKeys(*parts_.versions.Current());
  const Millis others = LookForOthers();
  return std::min(others, LookAtFiles());
}

Millis PolicyReloader::LookAtFiles() {
  const PolicySources sources = ReadPolicyTwice(parts_.path);
  const Digest now = Judge(sources);
  if (now == tried_) {
    seen_.reset();
    if (announced_) {
      const auto left = std::chrono::ceil<Millis>(announced_->due - parts_.clock.Now());
      if (left > Millis(0)) return std::min(left, limits::kPolicyPoll);
      (void)Take(sources, std::string(announced_->trigger));
    }
    const auto since = parts_.clock.Now() - counted_;
    const bool is_due = since >= limits::kOrphansCounted;
    if (is_due && (!parts_.versions.Held().empty() || !parts_.versions.Orphans().empty())) {
      CountOrphans();
    }
    if (last().result != ReloadReport::Result::kRefused) return limits::kPolicyPoll;
    if (parts_.clock.Now() - taken_ >= limits::kPolicyRetry) (void)Take(sources, kRetry);
    return limits::kPolicyRetry;
  }
  if (seen_ != now) {
    seen_ = now;  // may be half-written
    return limits::kPolicySettle;
  }
  return Take(sources, "file").result == ReloadReport::Result::kRefused ? limits::kPolicyRetry
                                                                        : limits::kPolicyPoll;
}

void PolicyReloader::Close() {
  const std::lock_guard work(work_mutex_);
  is_closed_ = true;
}

ReloadReport PolicyReloader::last() const {
  const std::lock_guard lock(report_mutex_);
  return last_;
}

// Also what cannot be read is a state of the files that is judged once.
Digest PolicyReloader::Judge(const PolicySources& sources) {
  std::string all;
  for (const PolicySource& file : sources.files) {
    AppendPart(all, file.name);
    AppendPart(all, file.text);
  }
  for (const PolicyProblem& problem : sources.problems) AppendPart(all, problem.ToString());
  return Sha256(all);
}

ReloadReport PolicyReloader::Take(const PolicySources& sources, std::string_view trigger) {
  using Result = ReloadReport::Result;
  const auto running = parts_.versions.Current();
  ReloadReport report;
  report.trigger = trigger;
  report.version = running->version;
  report.wall_ms = ToUnixMillis(parts_.clock.WallNow());
  report.result = Result::kRefused;
  bool is_kept_back = false;  // it is tried again, and stays announced
  if (is_closed_) {
    report.problems.emplace_back(kShuttingDown);
    return report;
  }
  tried_ = Judge(sources);
  seen_.reset();
  LoadedPolicy loaded = parts_.load(sources, TlsFiles::kCheck);
  report.problems = ErrorsOf(loaded.problems);
  if (loaded.ok() && loaded.policy->version == running->version) {
    report.result = Result::kUnchanged;
    ReadCallerKeys(*running);
  } else if (loaded.ok()) {
    if (std::string why = WhyNotTaken(*loaded.policy, *running); !why.empty()) {
      report.problems.push_back(parts_.path + ": error: " + why);
    } else if (auto prepared = parts_.tls.Prepare(*loaded.policy); !prepared) {
      report.problems.push_back(parts_.path + ": error: " + prepared.error());
    } else if (auto signs = parts_.ca.Prepare(*loaded.policy); !signs) {
      report.problems.push_back(parts_.path + ": error: " + signs.error());
    } else if (auto kept = Remember(*loaded.policy, sources.files, PolicyChange::Cause::kReload);
               !kept) {
      report.problems.push_back(kept.error());
      announced_.reset();
      is_kept_back = true;
    } else if (IsAnnounced(loaded.policy->version, trigger)) {
      report.result = Result::kAnnounced;
      report.version = loaded.policy->version;
      return report;
    } else {
      const auto policy = parts_.versions.Replace(loaded.policy);
      if (LearnOthers()) has_new_others_ = false;  // the policy before may be in force elsewhere
      ReadCallerKeys(*policy);
      parts_.publish(policy);
      NoteInForce(policy->version);
      is_told_ = false;
      report.result = Result::kReloaded;
      report.version = loaded.policy->version;
    }
  }
  taken_ = parts_.clock.Now();
  if (report.result != Result::kReloaded && !is_kept_back) TakeBack(*running);
  // Told when it was refused first.
  if (trigger == kRetry && report.problems == last().problems) return report;
  for (const PolicyProblem& problem : loaded.problems) {
    if (report.result != Result::kReloaded) break;
    LogProblem(LogLevel::kWarn, "policy", problem.ToString());
  }
  Report(report);
  if (report.result == Result::kReloaded) CountOrphans();
  return report;
}

void PolicyReloader::ReadCallerKeys(const Policy& policy) {
  if (!policy.callers.jwt) return;
  JwksFile& keys = *policy.callers.jwt->keys;
  const auto read = keys.Read();
  const std::string problem = read ? std::string() : read.error();
  if (read && *read) {
    Log(LogLevel::kInfo, "the keys of callers' tokens were read again", {{"file", keys.path()}});
  } else if (problem != keys_problem_ && !problem.empty()) {
    Log(LogLevel::kError, "the keys of callers' tokens stay as they are", {{"reason", problem}});
  }
  keys_problem_ = problem;
}

void PolicyReloader::Report(const ReloadReport& report) {
  if (report.result == ReloadReport::Result::kRefused) {
    for (const std::string& problem : report.problems) {
      Log(LogLevel::kError, "policy refused", {{"problem", problem}});
    }
    Log(LogLevel::kError, "the policy was not reloaded; the one before stays in force",
        {{"version", report.version}, {"trigger", report.trigger}});
  } else {
    const bool is_new = report.result == ReloadReport::Result::kReloaded;
    Log(LogLevel::kInfo, is_new ? "policy reloaded" : "policy unchanged",
        {{"version", report.version}, {"trigger", report.trigger}});
  }
  parts_.metrics.policy_reloads.Add({{"result", std::string(NameOf(report.result))}}).Increment();
  if (report.result == ReloadReport::Result::kReloaded) {
    parts_.metrics.PolicyInForce(report.version, parts_.clock.WallNow());
  }
  const std::lock_guard lock(report_mutex_);
  last_ = report;
}

// First the file, then the row of the ledger, then the first request.
FileResult<void> PolicyReloader::Remember(const Policy& policy,
                                          const std::vector<PolicySource>& files,
                                          PolicyChange::Cause cause) {
  const bool is_observing = policy.mode == Mode::kObserve;
  if (is_observing && !parts_.ledger.OwnStats().not_opened.empty()) return {};  // not our directory
  is_told_ = shared_ != nullptr && cause == PolicyChange::Cause::kReload;
  FileResult<void> kept = archive_.Keep(policy.version, files);
  if (kept) {
    const auto noted = parts_.ledger.RecordPolicy({cause, policy.version, policy.digest});
    if (noted) return {};
    kept = std::unexpected("the ledger cannot remember the policy: " +
                           std::string(noted.error().detail()));
  }
  if (!is_observing) return kept;
  // Nothing depends on it there: no call is held back and none is settled.
  Log(LogLevel::kError, "the policy is taken but not remembered", {{"reason", kept.error()}});
  return {};
}

Millis PolicyReloader::LookForOthers() {
  if (shared_ == nullptr) return limits::kPolicyPoll;
  const auto left =
      std::chrono::ceil<Millis>(learned_ + limits::kOthersLearned - parts_.clock.Now());
  const bool is_due = left <= Millis(0) || parts_.versions.IsWanted();
  if (is_due && !LearnOthers()) return limits::kPolicyRetry;
  PublishOthers();
  return is_due ? limits::kPolicyPoll : left;
}

void PolicyReloader::PublishOthers() {
  if (std::exchange(has_new_others_, false)) parts_.publish(parts_.versions.Current());
}

// What cannot be asked about may be so.
bool PolicyReloader::MayOthersLack(const std::string& version) {
  if (!LearnOthers()) return true;
  return std::ranges::any_of(in_force_, [&](const std::string& one) { return one != version; });
}

// What fails is said again whenever the others are learned.
void PolicyReloader::NoteInForce(const std::string& version) {
  if (shared_ != nullptr) (void)shared_->PolicyInForce(version);
}

bool PolicyReloader::IsAnnounced(const std::string& version, std::string_view trigger) {
  if (shared_ == nullptr) return false;
  const MonoTime now = parts_.clock.Now();
  const bool is_same = announced_ && announced_->version == version;
  if (!is_same) {
    announced_.reset();
    const bool may_lack = MayOthersLack(version);
    PublishOthers();
    if (!may_lack) return false;
    announced_ = {version, std::string(trigger), now + limits::kPolicyLearned};
    Log(LogLevel::kInfo, "policy announced; it is in force once the other pods know it",
        {{"version", version}, {"ms", std::to_string(limits::kPolicyLearned.count())}});
  }
  if (now < announced_->due) return true;
  announced_.reset();
  return false;
}

void PolicyReloader::TakeBack(const Policy& running) {
  if (!std::exchange(is_told_, false)) return;
  announced_.reset();
  NoteInForce(running.version);
  const auto noted =
      parts_.ledger.RecordPolicy({PolicyChange::Cause::kReload, running.version, running.digest});
  if (noted) return;
  Log(LogLevel::kError, "the log lacks that an announced policy was taken back",
      {{"reason", noted.error().detail()}});
}

bool PolicyReloader::LearnOthers() {
  if (shared_ == nullptr) return true;
  const MonoTime asked = parts_.clock.Now();
  const auto of_group = shared_->PoliciesOfGroup();
  if (!of_group) return false;
  std::set<std::string> looked_for = parts_.versions.TakeWanted();
  looked_for.insert(of_group->in_force.begin(), of_group->in_force.end());
  for (const std::string& version : looked_for) {
    if (parts_.versions.Holds(version)) continue;
    OpenGroup theirs;
    theirs.policy_version = version;
    auto found = LoadOld(theirs);
    if (!found) return false;
    if (*found == nullptr) {
      parts_.versions.Lost(version);
    } else {
      parts_.versions.Found(std::move(*found));
    }
  }
  in_force_ = {of_group->in_force.begin(), of_group->in_force.end()};
  has_new_others_ = parts_.versions.SetOthers(in_force_) || has_new_others_;
  learned_ = asked;
  return true;
}

PolicyVersions::Loaded PolicyReloader::LoadOld(const OpenGroup& open) {
  auto old = archive_.Load(open.policy_version);
  if (old && *old == nullptr) return std::nullopt;
  if (old) {
    if (auto prepared = parts_.tls.Prepare(**old); !prepared) {
      Log(LogLevel::kWarn, "an older policy's backend cannot be reached over TLS any more",
          {{"version", open.policy_version}, {"reason", prepared.error()}});
    }
    return std::shared_ptr<const Policy>(std::move(*old));
  }
  Log(LogLevel::kWarn,
      "open operations began under a policy that is lost; what the policy in force says of their "
      "tool is used to settle them",
      {{"version", open.policy_version}, {"tool", open.tool}, {"reason", old.error()}});
  return std::shared_ptr<const Policy>();
}

// Of those, one that cannot be read matters to unanswered calls alone; CountOrphans() tells of the
// others.
void PolicyReloader::LoadRecent(const Policy& current) {
  std::vector<std::shared_ptr<const Policy>> recent;
  for (const std::string& version : archive_.Recent()) {
    if (recent.size() == PolicyVersions::kRecent) break;
    if (version == current.version) continue;
    auto old = archive_.Load(version);
    if (old && *old != nullptr) {
      recent.push_back(std::move(*old));
      continue;
    }
    Log(LogLevel::kError,
        "an earlier policy is lost; a call whose answer was lost under it may be sent again",
        {{"version", version}, {"reason", old ? "the ledger cannot be asked" : old.error()}});
  }
  while (!recent.empty()) {
    parts_.versions.AddRecent(std::move(recent.back()));
    recent.pop_back();
  }
}

void PolicyReloader::CountOrphans() {
  counted_ = parts_.clock.Now();
  const std::set<std::string> idle = parts_.versions.Idle();
  const auto open = CountOpen(parts_.ledger);
  if (!open) return;  // nothing is let go
  parts_.versions.Keep(*open, idle, [this](const OpenGroup& group) { return LoadOld(group); });
  std::uint64_t operations = 0;
  std::set<std::string> named;
  for (const auto& [group, reason, has_definition] : parts_.versions.Orphans()) {
    operations += group.operations;
    const std::string name = group.policy_version + " " + group.tool + " " + group.backend;
    named.insert(name);
    if (warned_.contains(name)) continue;
    const bool is_lost = reason == Orphaned::kPolicyLost;
    Log(is_lost ? LogLevel::kError : LogLevel::kWarn,
        is_lost ? "open operations began under a policy that is lost"
                : "the policy leaves open operations without their route",
        {{"tool", group.tool},
         {"backend", group.backend},
         {"began_under", group.policy_version},
         {"operations", std::to_string(group.operations)},
         {"first_event", PrintRowId(group.first)},
         {"reason", NameOf(reason)},
         {"settled_by", has_definition ? "the policy they began under" : "nothing"},
         {"advice", Advice(reason)}});
  }
  warned_ = std::move(named);
  parts_.metrics.orphaned_operations.Set(static_cast<double>(operations));
  std::set<std::string> needed;
  for (const OpenGroup& group : *open) needed.insert(group.policy_version);
  needed.insert(parts_.versions.Current()->version);
  archive_.Prune(needed);
}

}  // namespace recourse
