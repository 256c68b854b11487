// Where a call that begins looks for an operation that it may repeat. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rules/known.h"

namespace recourse {

// The call as it is judged: what is found may change it, which must not show before it is decided.
class JudgedCall {
 public:
  explicit JudgedCall(NewOperation& call) : call_(call) {}
  const NewOperation& operator*() const { return changed_ ? *changed_ : call_; }
  const NewOperation* operator->() const { return &**this; }
  NewOperation& Change() { return changed_ ? *changed_ : changed_.emplace(call_); }
  // It is judged anew, as it came.
  void Restore() { changed_.reset(); }
  // It is decided.
  NewOperation& Take() {
    if (changed_) call_ = std::move(*changed_);
    changed_.reset();
    return call_;
  }

 private:
  NewOperation& call_;
  std::optional<NewOperation> changed_;
};

using MaybeFound = std::optional<FoundOperation>;

// The newest operation of the key.
Judged<MaybeFound> FindByKey(const Digest& key, Known& known);
// What the call's key means, or the key that the agent has named. Where that had no effect, the
// call takes its intent.
Judged<MaybeFound> FindMeant(JudgedCall& call, Known& known);
// Of equal calls that only retries repeat, the newest may have been answered, and an earlier one
// not: that one. nullopt: what was found under the key stands for all.
Judged<MaybeFound> FindUnanswered(const NewOperation& call, const Digest& base_key,
                                  const MaybeFound& newest, Known& known);
// The operation of the same intent under another key that the call may repeat.
Judged<MaybeFound> FindSameIntent(const NewOperation& call, const MaybeFound& same_key,
                                  bool is_superseded, Known& known);
// What began under an earlier recipe and has not come to an end; see NewOperation::older.
Judged<MaybeFound> FindUnfinished(const NewOperation& call, const OlderRecipe& older, Known& known);
Judged<MaybeFound> FindOlderIntent(const NewOperation& call, const OlderRecipe& older,
                                   Known& known);
// Where the arguments were compared otherwise when it began.
void CompareAsThen(const NewOperation& call, MaybeFound& same_key);

Judged<bool> ClientWaits(const NewOperation& call, const FoundOperation& found, Known& known);

// The first generation of the key, from `wanted` on, that nothing has.
Judged<std::uint32_t> FreeGeneration(const Digest& key, std::uint32_t wanted, Known& known);

}  // namespace recourse
