// The policies that this process still needs: the one in force, the last ones before it, those that
// requests and operations of unknown outcome began under, and those that others have in force with
// whom it shares its ledger.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "policy/model/policy.h"

namespace recourse {

// Operations in DISPATCHING or UNCERTAIN that have these names in common.
struct OpenGroup {
  std::string tool, backend, policy_version;
  std::uint64_t operations = 0;
  std::uint64_t first = 0;  // lowest number of an operation
  // Flows that are not over: their policy says how they are undone. Tool and backend are empty.
  bool is_flows = false;
};
// All of them. Blocking; fails when the ledger cannot be read.
Result<std::vector<OpenGroup>> CountOpen(Ledger& ledger);

// What the policy in force says of an older operation's tool and backend.
enum class Orphaned : std::uint8_t {
  kNo,
  kToolGone,
  kBackendGone,
  kBackendMoved,
  kPolicyLost,  // how it names their repeats is not known
};
// `began_under` may be null: what it said is not known any more.
Orphaned JudgeOpen(const OpenGroup& open, const Policy& current, const Policy* began_under);
std::string_view NameOf(Orphaned reason);

class PolicyVersions {
 public:
  explicit PolicyVersions(std::shared_ptr<const Policy> first);

  // Thread-safe; neither blocks on anything but a short lock.
  std::shared_ptr<const Policy> Current() const;
  // The policy of that version, else, when nobody has it any more, the one in force.
  std::shared_ptr<const Policy> Of(const std::string& version) const;
  // The last ones before it, those that something open began under, and those of others: calls have
  // other names there. No more, as calls hold them, which would be idle at no time.
  std::vector<std::weak_ptr<const Policy>> Earlier() const;
  // The policy of that digest, if it is in force here or elsewhere; else the one in force here.
  std::shared_ptr<const Policy> InForce(const Digest& digest) const;

  // Gives the policy that is in force now: the held one of the same version, or `next`.
  std::shared_ptr<const Policy> Replace(std::shared_ptr<const Policy> next);

  // Was in force before this process began. Newest last.
  void AddRecent(std::shared_ptr<const Policy> policy);
  // The last policies in force before this one, and the last that others had. What was answered
  // under them may not have come to its client, which is known of the operation alone.
  static constexpr std::size_t kRecent = 2;

  // Processes that share a ledger may need at any time what only another one has had. `ask` is told
  // when there is something to TakeWanted(), with a lock held. Before anything else.
  void Share(std::function<void()> ask) { ask_ = std::move(ask); }
  // Whether Of() does not give that version, but may once somebody has looked for it, who is asked
  // to. Thread-safe.
  bool IsAwaited(const std::string& version);
  bool IsWanted() const;  // whether there is something to TakeWanted(); thread-safe
  std::set<std::string> TakeWanted();
  bool Holds(const std::string& version) const;
  void Found(std::shared_ptr<const Policy> policy);
  void Lost(const std::string& version);
  // Of those others that are held; gives whether these are others than before.
  bool SetOthers(const std::set<std::string>& versions);

  // Bookkeeping, one thread at a time. Idle() gives the versions that nothing but this object
  // holds; of those Keep() lets go what is not `open`, which was counted after Idle().
  std::set<std::string> Idle() const;
  // Null: it is lost; nullopt: that cannot be told now.
  using Loaded = std::optional<std::shared_ptr<const Policy>>;
  using Load = std::function<Loaded(const OpenGroup&)>;
  // `load` is asked once per version that is not held.
  void Keep(const std::vector<OpenGroup>& open, const std::set<std::string>& idle,
            const Load& load);

  struct Orphan {
    OpenGroup open;
    Orphaned reason = Orphaned::kNo;
    bool has_definition = false;  // of its own version
  };
  std::vector<Orphan> Orphans() const;    // as of the last Keep()
  std::vector<std::string> Held() const;  // other than the one in force

 private:
  using Recent = std::deque<std::shared_ptr<const Policy>>;
  static void Note(std::shared_ptr<const Policy> policy, Recent& among);  // under mutex_

  std::function<void()> ask_;  // constant once it is shared; empty: it is not
  mutable std::mutex mutex_;
  std::shared_ptr<const Policy> current_;                        // guarded by mutex_
  std::map<std::string, std::shared_ptr<const Policy>> held_;    // guarded by mutex_
  Recent recent_, recent_others_;                                // guarded by mutex_
  std::map<std::string, std::shared_ptr<const Policy>> others_;  // guarded by mutex_
  std::set<std::string> wanted_;                                 // guarded by mutex_
  std::set<std::string> needed_;  // guarded by mutex_: by what is open
  std::set<std::string> lost_;    // guarded by mutex_
  std::vector<Orphan> orphans_;   // guarded by mutex_
};

}  // namespace recourse
