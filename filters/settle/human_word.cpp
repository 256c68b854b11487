#include "filters/settle/human_word.h"

#include "filters/call/call_values.h"
#include "filters/call/stored_call.h"
#include "filters/flow_effect.h"
#include "filters/ledger/model/row_id.h"
#include "filters/settle/probe.h"

namespace recourse {
namespace {

// Not so where another call has the number of the one that was meant.
bool IsAbout(const HumanWord& word, const Event& last) {
  return !word.key || *word.key == last.key;
}

// An undo request that took effect: nothing undoes it, and no agent asks for its answer.
Transition UndoneTransition(const HumanWord& word, const Event& last) {
  Transition transition = Transition::Of(last);
  transition.to = Phase::kSucceeded;
  transition.external_ref = word.external_ref;
  return transition;
}

Transition HappenedTransition(const std::string& external_ref, const HumanWord& word,
                              const Event& last, const Tool& tool, const Policy* policy) {
  const Finding found{external_ref, Cause::kHuman, word.reason};
  const Pairs captures = policy == nullptr ? Pairs() : CapturesOf(last, *policy);
  return PresentTransition(last, found, tool, captures, KeyRuleOf(last, policy));
}

}  // namespace

bool IsSettledBy(const HumanWord& word, const Event& last) {
  if (!IsAbout(word, last)) return false;
  if (last.cause != Cause::kHuman) return false;
  if (!word.happened) return last.phase == Phase::kProvenAbsent;
  return last.phase == Phase::kSucceeded &&
         (word.external_ref.empty() || word.external_ref == last.external_ref);
}

std::string ObjectionToSettling(const HumanWord& word, const Event& last) {
  if (last.is_locked) return last.detail;
  if (!IsAbout(word, last)) return std::string(OtherCallError().detail());
  if (last.phase == Phase::kUncertain) return {};
  if (last.phase == Phase::kProvenAbsent && word.corrects_proof) return {};
  const std::string who = "operation " + PrintRowId(last.operation);
  if (last.phase == Phase::kDispatching) {
    return who + " is being sent: wait for its answer, or for its timeout";
  }
  if (last.phase == Phase::kClaimed) {
    const std::string number = PrintRowId(last.operation);
    return who + " waits for approval and was not sent: decide it, recourse approvals approve " +
           number + " or recourse approvals reject " + number;
  }
  if (last.phase == Phase::kApproved) return who + " was approved and is to be sent: wait for that";
  return "the outcome of " + who + " is known: it is " + std::string(NameOf(last.phase));
}

std::expected<Transition, std::string> TransitionOf(const HumanWord& word, const Event& last,
                                                    const Policy* policy) {
  const Tool* const known = policy == nullptr ? nullptr : policy->FindTool(last.tool);
  const Tool& tool = known == nullptr ? UnlistedTool() : *known;
  Transition transition;
  if (word.happened && last.undoes == 0) {
    transition = HappenedTransition(word.external_ref, word, last, tool, policy);
    const bool is_refs_fault = !word.external_ref.empty() && !transition.undo &&
                               HappenedTransition("1", word, last, tool, policy).undo;
    if (is_refs_fault) {
      return std::unexpected("'" + word.external_ref + "' cannot be its external_ref" +
                             transition.detail.substr(word.reason.size()));
    }
  } else {
    transition = word.happened ? UndoneTransition(word, last) : AbsentTransition(last);
    transition.detail = word.reason;
  }
  transition.from = last.phase;
  transition.cause = Cause::kHuman;
  if (last.is_step && known != nullptr) {
    transition.flow = FlowEffectOf(*policy, tool, transition.to);
  }
  return transition;
}

}  // namespace recourse
