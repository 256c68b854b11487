#include "proxy/base/call_budget.h"

#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::size_t kTimesFree = 3;

}  // namespace

bool MayHold(const BudgetUse& use, std::size_t more) {
  if (more > use.bytes_max || use.all > use.bytes_max - more) return false;
  const std::size_t may_have = kTimesFree * (use.bytes_max - use.all - more);
  if (use.caller + more > may_have) return false;
  // What the caller gets beside it takes from what is free as well.
  const std::size_t could_get = (may_have - use.caller - more) / (kTimesFree + 1);
  return use.call + more <= could_get;
}

// Who comes when very many are known shares a part with the others of that kind.
std::map<std::string, CallBudget::Account>::iterator CallBudget::Enter(const std::string& caller) {
  const std::lock_guard lock(mutex_);
  const bool is_full = accounts_.size() >= limits::kCallersMax;
  auto found = accounts_.find(is_full && !accounts_.contains(caller) ? std::string() : caller);
  if (found == accounts_.end()) {
    found = accounts_.emplace(is_full ? std::string() : caller, Account()).first;
  }
  ++found->second.calls;
  return found;
}

CallBudget::Hold::Hold(CallBudget& budget, Of of, const std::string& caller)
    : budget_(budget), of_(of), account_(budget.Enter(caller)) {}

CallBudget::Hold::~Hold() {
  const std::lock_guard lock(budget_.mutex_);
  budget_.all_ -= sum_;
  budget_.held_[static_cast<std::size_t>(of_)] -= sum_;
  account_->second.held -= sum_;
  // The accounts of a few stay: each call would make one anew.
  if (--account_->second.calls == 0 && budget_.accounts_.size() > limits::kIdleCallersKept) {
    budget_.accounts_.erase(account_);
  }
}

bool CallBudget::Hold::Set(HeldFor what, std::size_t bytes) {
  std::size_t& part = parts_[static_cast<std::size_t>(what)];
  if (bytes == part) return true;
  const std::lock_guard lock(budget_.mutex_);
  Account& account = account_->second;
  if (bytes > part &&
      !MayHold({budget_.bytes_max_, budget_.all_, account.held, sum_}, bytes - part)) {
    return false;
  }
  const std::size_t change = bytes - part;  // modulo 2^64 where it is less
  part = bytes;
  sum_ += change;
  account.held += change;
  budget_.all_ += change;
  budget_.held_[static_cast<std::size_t>(of_)] += change;
  return true;
}

}  // namespace recourse
