#include "proxy/reload/policy_versions.h"

#include <algorithm>
#include <condition_variable>
#include <tuple>
#include <utility>

#include "filters/call/stored_call.h"

namespace recourse {
namespace {

constexpr std::string_view kUnlisted = "unlisted.";

// Runs what a coroutine left to be done on the thread that waits for it.
class WaitingExecutor final : public Executor {
 public:
  void Post(std::vector<Job> jobs) override {
    const std::lock_guard lock(mutex_);
    for (Job& job : jobs) jobs_.push_back(std::move(job));
    wake_.notify_one();
  }
  void RunUntil(const bool& done) {
    while (!done) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !jobs_.empty(); });
      std::vector<Job> jobs = std::move(jobs_);
      jobs_.clear();
      lock.unlock();
      for (Job& job : jobs) job();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job> jobs_;  // guarded by mutex_
};

using Groups = std::map<std::tuple<std::string, std::string, std::string>, OpenGroup>;

// A step is undone under the policy that it began under: where its backend was, and with what
// credentials, no other one says.
bool NeedsPolicies(const FlowState& flow) {
  return flow.phase != FlowPhase::kOpen || flow.has_deadline ||
         std::ranges::any_of(
             flow.steps, [](const FlowStep& step) { return step.has_undo || IsOpen(step.phase); });
}

// Of flows that have a deadline, are broken or parked, or hold what can be undone.
Task<void> CollectFlows(Ledger& ledger, Executor& executor, Result<Groups>& groups) {
  std::uint64_t after = 0;
  for (;;) {
    const Result<std::vector<FlowState>> page =
        co_await ledger.Flows(after, limits::kRecoveryBatchRows, executor);
    if (!page) {
      groups = std::unexpected(page.error());
      co_return;
    }
    if (page->empty()) co_return;
    for (const FlowState& flow : *page) {
      after = flow.number;
      if (!NeedsPolicies(flow)) continue;
      std::vector<std::string> versions = flow.other_versions;
      versions.push_back(flow.policy_version);
      for (const std::string& version : versions) {
        OpenGroup& group = (*groups)[{version, "", ""}];
        group.policy_version = version;
        group.is_flows = true;
        if (group.operations++ == 0) group.first = flow.number;
      }
    }
  }
}

Task<void> CollectOpen(Ledger& ledger, Executor& executor, Result<Groups>& groups) {
  std::uint64_t after = 0;
  for (;;) {
    const Result<std::vector<Event>> page =
        co_await ledger.Open(after, limits::kRecoveryBatchRows, executor);
    if (!page) {
      groups = std::unexpected(page.error());
      co_return;
    }
    if (page->empty()) co_return co_await CollectFlows(ledger, executor, groups);
    for (const Event& event : *page) {
      after = std::max(after, event.operation);
      OpenGroup& group = (*groups)[{event.policy_version, event.tool, event.backend}];
      if (group.operations++ > 0) continue;
      group.tool = event.tool;
      group.backend = event.backend;
      group.policy_version = event.policy_version;
      group.first = event.operation;
    }
  }
}

}  // namespace

Result<std::vector<OpenGroup>> CountOpen(Ledger& ledger) {
  WaitingExecutor executor;
  Result<Groups> groups;
  bool done = false;
  Spawn(CollectOpen(ledger, executor, groups), [&done] { done = true; });
  executor.RunUntil(done);
  if (!groups) return std::unexpected(groups.error());
  std::vector<OpenGroup> all;
  for (auto& [key, group] : *groups) all.push_back(std::move(group));
  return all;
}

Orphaned JudgeOpen(const OpenGroup& open, const Policy& current, const Policy* began_under) {
  if (open.is_flows || open.policy_version == current.version) return Orphaned::kNo;
  const Backend* backend = FindBackend(current, open.backend);
  if (backend == nullptr) return Orphaned::kBackendGone;
  if (!open.tool.starts_with(kUnlisted) && current.FindTool(open.tool) == nullptr) {
    return Orphaned::kToolGone;
  }
  if (began_under == nullptr) return Orphaned::kPolicyLost;
  const Backend* before = FindBackend(*began_under, open.backend);
  if (before != nullptr && !IsSamePlace(*before, *backend)) return Orphaned::kBackendMoved;
  return Orphaned::kNo;
}

std::string_view NameOf(Orphaned reason) {
  switch (reason) {
    case Orphaned::kNo:
      return "no";
    case Orphaned::kToolGone:
      return "tool gone";
    case Orphaned::kBackendGone:
      return "backend gone";
    case Orphaned::kBackendMoved:
      return "backend moved";
    case Orphaned::kPolicyLost:
      return "policy lost";
  }
  return "no";
}

PolicyVersions::PolicyVersions(std::shared_ptr<const Policy> first) : current_(std::move(first)) {
  held_[current_->version] = current_;
}

std::shared_ptr<const Policy> PolicyVersions::Current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

std::shared_ptr<const Policy> PolicyVersions::Of(const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(version);
  return found == held_.end() ? current_ : found->second;
}

std::vector<std::weak_ptr<const Policy>> PolicyVersions::Earlier() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::weak_ptr<const Policy>> earlier;
  for (const auto& policy : recent_) earlier[policy->version] = policy;
  for (const auto& policy : recent_others_) earlier[policy->version] = policy;
  for (const auto& [version, policy] : others_) earlier[version] = policy;
  for (const auto& [version, policy] : held_) {
    if (needed_.contains(version)) earlier[version] = policy;
  }
  earlier.erase(current_->version);
  std::vector<std::weak_ptr<const Policy>> all;
  for (auto& [version, policy] : earlier) all.push_back(std::move(policy));
  return all;
}

std::shared_ptr<const Policy> PolicyVersions::InForce(const Digest& digest) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [version, policy] : others_) {
    if (policy->digest == digest && current_->digest != digest) return policy;
  }
  return current_;
}

bool PolicyVersions::IsAwaited(const std::string& version) {
  const std::lock_guard lock(mutex_);
  if (!ask_ || held_.contains(version) || lost_.contains(version)) return false;
  wanted_.insert(version);
  ask_();
  return true;
}

bool PolicyVersions::IsWanted() const {
  const std::lock_guard lock(mutex_);
  return !wanted_.empty();
}

std::set<std::string> PolicyVersions::TakeWanted() {
  const std::lock_guard lock(mutex_);
  return std::exchange(wanted_, {});
}

bool PolicyVersions::Holds(const std::string& version) const {
  const std::lock_guard lock(mutex_);
  return held_.contains(version);
}

void PolicyVersions::Found(std::shared_ptr<const Policy> policy) {
  const std::lock_guard lock(mutex_);
  held_.try_emplace(policy->version, policy);
}

void PolicyVersions::Lost(const std::string& version) {
  const std::lock_guard lock(mutex_);
  lost_.insert(version);
}

bool PolicyVersions::SetOthers(const std::set<std::string>& versions) {
  std::map<std::string, std::shared_ptr<const Policy>> others;
  const std::lock_guard lock(mutex_);
  for (const std::string& version : versions) {
    const auto found = held_.find(version);
    if (found != held_.end() && found->second != current_) others.insert(*found);
  }
  others_.swap(others);
  // Their calls may be repeated yet.
  for (const auto& [version, policy] : others) {
    if (!others_.contains(version) && policy != current_) Note(policy, recent_others_);
  }
  return others_ != others;
}

void PolicyVersions::Note(std::shared_ptr<const Policy> policy, Recent& among) {
  std::erase_if(among, [&](const auto& each) { return each->version == policy->version; });
  among.push_back(std::move(policy));
  if (among.size() > kRecent) among.pop_front();
}

void PolicyVersions::AddRecent(std::shared_ptr<const Policy> policy) {
  const std::lock_guard lock(mutex_);
  Note(std::move(policy), recent_);
}

std::shared_ptr<const Policy> PolicyVersions::Replace(std::shared_ptr<const Policy> next) {
  const std::lock_guard lock(mutex_);
  Note(current_, recent_);
  // A version that comes back while operations of it are open stays the one that they hold.
  current_ = held_.try_emplace(next->version, next).first->second;
  return current_;
}

std::set<std::string> PolicyVersions::Idle() const {
  const std::lock_guard lock(mutex_);
  std::set<std::string> idle;
  for (const auto& [version, policy] : held_) {
    const auto own =
        1 + std::ranges::count(recent_, policy) + std::ranges::count(recent_others_, policy);
    const bool is_kept = policy == current_ || others_.contains(version);
    if (!is_kept && policy.use_count() == own) idle.insert(version);
  }
  return idle;
}

void PolicyVersions::Keep(const std::vector<OpenGroup>& open, const std::set<std::string>& idle,
                          const Load& load) {
  std::set<std::string> needed;
  for (const OpenGroup& group : open) {
    if (!needed.insert(group.policy_version).second) continue;
    {
      const std::lock_guard lock(mutex_);
      if (held_.contains(group.policy_version) || lost_.contains(group.policy_version)) continue;
    }
    Loaded loaded = load(group);
    if (!loaded) continue;
    const std::lock_guard lock(mutex_);
    if (*loaded == nullptr) {
      lost_.insert(group.policy_version);
    } else {
      held_[group.policy_version] = std::move(*loaded);
    }
  }
  std::vector<std::shared_ptr<const Policy>> freed;  // outside of the lock
  const std::lock_guard lock(mutex_);
  std::erase_if(lost_, [&](const std::string& version) { return !needed.contains(version); });
  for (const std::string& version : idle) {
    const auto found = held_.find(version);
    if (needed.contains(version) || found == held_.end() || found->second == current_) continue;
    freed.push_back(std::move(found->second));
    held_.erase(found);
  }
  needed_ = std::move(needed);
  orphans_.clear();
  for (const OpenGroup& group : open) {
    const auto found = held_.find(group.policy_version);
    const Policy* own = found == held_.end() ? nullptr : found->second.get();
    const Orphaned reason = JudgeOpen(group, *current_, own);
    if (reason != Orphaned::kNo) orphans_.push_back({group, reason, own != nullptr});
  }
}

std::vector<PolicyVersions::Orphan> PolicyVersions::Orphans() const {
  const std::lock_guard lock(mutex_);
  return orphans_;
}

std::vector<std::string> PolicyVersions::Held() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> versions;
  for (const auto& [version, policy] : held_) {
    if (policy != current_) versions.push_back(version);
  }
  return versions;
}

}  // namespace recourse
