#include "filters/ledger/model/approval.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/model/callers.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

using RulingKind = ApprovalRuling::Kind;

bool IsByHuman(ApprovalOrder::Kind kind) {
  return kind == ApprovalOrder::Kind::kApprove || kind == ApprovalOrder::Kind::kReject;
}

bool IsNamed(const std::vector<std::string>& by, const Approver& approver) {
  const auto names = [&](const std::string& name) {
    return std::find(by.begin(), by.end(), name) != by.end();
  };
  return names(approver.name) || std::any_of(approver.groups.begin(), approver.groups.end(), names);
}

const ApprovalDecision* Decisive(const ApprovalFacts& facts) {
  const auto counts = [](const ApprovalDecision& one) { return !one.is_late && !one.is_void; };
  const auto last = std::find_if(facts.decisions.rbegin(), facts.decisions.rend(), counts);
  return last == facts.decisions.rend() ? nullptr : &*last;
}

bool HasApproved(const ApprovalFacts& facts, const std::string& who) {
  return std::any_of(
      facts.decisions.begin(), facts.decisions.end(),
      [&](const ApprovalDecision& one) { return !one.is_late && !one.is_void && one.who == who; });
}

// Nobody's word moves it any more. It is noted all the same, so that both of two who race are in
// the log.
ApprovalRuling TooLate(const Event& event) {
  const ApprovalFacts& facts = *event.approval;
  const ApprovalDecision* const decisive = Decisive(facts);
  ApprovalRuling ruling{.kind = event.phase == Phase::kExpired ? RulingKind::kExpired
                                                               : RulingKind::kDecided};
  ruling.is_noted = facts.decisions.size() < limits::kApprovalDecisionsMax;
  if (event.phase == Phase::kExpired) {
    ruling.text = "it is over: " + event.detail;
  } else if (decisive == nullptr) {
    ruling.text = fmt::format("it is {} already", NameOf(event.phase));
  } else {
    ruling.text =
        fmt::format("{} was first and {} it; the operation is {}", decisive->who,
                    decisive->kind == ApprovalDecision::Kind::kRejected ? "rejected" : "approved",
                    NameOf(event.phase));
  }
  return ruling;
}

ApprovalRuling Refuse(RulingKind kind, std::string text) {
  return {.kind = kind, .text = std::move(text)};
}

ApprovalRuling Over(Cause cause, std::string text, RulingKind kind) {
  return {.kind = kind, .to = Phase::kExpired, .cause = cause, .text = std::move(text)};
}

std::string Minutes(std::int64_t ms) {
  return ms % 60'000 == 0 ? fmt::format("{} min", ms / 60'000) : fmt::format("{} s", ms / 1'000);
}

std::string WithReason(std::string text, const std::string& reason) {
  return reason.empty() ? text : text + ": " + reason;
}

ApprovalRuling OverInTime(const ApprovalFacts& facts, RulingKind kind) {
  return Over(Cause::kExpired, "nobody decided within " + Minutes(facts.expires_ms), kind);
}

// What the passing of time, a new policy or a failure make of it.
ApprovalRuling JudgeCircumstance(const ApprovalOrder& order, const Event& event, bool is_over) {
  const bool was_approved = event.phase == Phase::kApproved;
  if (order.kind == ApprovalOrder::Kind::kCannotRun && was_approved) {
    return Over(Cause::kCanceled, "it cannot be sent: " + order.reason, RulingKind::kTaken);
  }
  if (is_over && was_approved) {
    return Over(Cause::kExpired,
                WithReason("its time ran out before it could be sent", order.reason),
                RulingKind::kTaken);
  }
  if (is_over) return OverInTime(*event.approval, RulingKind::kTaken);
  if (order.policy != event.approval->policy) {
    return Over(Cause::kPolicyChanged, "the policy changed", RulingKind::kTaken);
  }
  return Refuse(RulingKind::kNotDue, "there is nothing to do yet");
}

ApprovalRuling Approve(const ApprovalOrder& order, const Event& event) {
  const ApprovalFacts& facts = *event.approval;
  // An edit makes another request of it, which nobody else has seen.
  const int before = order.body ? 0 : CountApprovals(facts);
  const bool is_enough = before + 1 >= facts.needed;
  const std::string did = order.body ? "approved with edits by " : "approved by ";
  const std::string count =
      facts.needed == 1 ? std::string() : fmt::format(" ({} of {})", before + 1, facts.needed);
  return {.kind = RulingKind::kTaken,
          .to = is_enough ? Phase::kApproved : Phase::kClaimed,
          .cause = Cause::kHuman,
          .is_noted = true,
          .text = WithReason(did + order.by.name + count, order.reason)};
}

}  // namespace

bool IsOverInTime(const Event& event, Millis left) {
  if (!event.approval || !IsClaim(event.phase)) return false;
  const ApprovalFacts& facts = *event.approval;
  const ApprovalDecision* const yes = event.phase == Phase::kApproved ? Decisive(facts) : nullptr;
  if (yes == nullptr) return left <= Millis(0);
  const Millis left_then(facts.asked_ms + facts.expires_ms - yes->wall_ms);
  const Millis longer = limits::kApprovalSentWithin - std::max(left_then, Millis(0));
  return left + std::max(longer, Millis(0)) <= Millis(0);
}

ApprovalRuling JudgeOrder(const ApprovalOrder& order, const Event& event, bool is_over) {
  const bool is_pending = event.phase == Phase::kClaimed;
  if (!event.approval) {
    return Refuse(RulingKind::kDecided, "the operation waits for nobody's approval");
  }
  const ApprovalFacts& facts = *event.approval;
  if (!IsByHuman(order.kind)) {
    if (!is_pending && event.phase != Phase::kApproved) {
      return Refuse(RulingKind::kDecided, fmt::format("it is {} already", NameOf(event.phase)));
    }
    return JudgeCircumstance(order, event, is_over);
  }
  // Who may not decide learns nothing more, and leaves no trace in the operation.
  if (IsPartOfCaller(order.by.name, event.caller)) {
    return Refuse(RulingKind::kNotAllowed,
                  "who makes a call can never approve it: you are its caller, " + event.caller);
  }
  if (!IsNamed(facts.by, order.by)) {
    return Refuse(RulingKind::kNotAllowed,
                  fmt::format("{} is not one of those who may decide it, nor in a group that may: "
                              "{}",
                              order.by.name, fmt::join(facts.by, ", ")));
  }
  if (!is_pending) return TooLate(event);
  if (is_over) return OverInTime(facts, RulingKind::kExpired);
  if (order.policy != facts.policy) {
    return Over(Cause::kPolicyChanged, "the policy changed", RulingKind::kDecided);
  }
  if (order.kind == ApprovalOrder::Kind::kReject) {
    return {.kind = RulingKind::kTaken,
            .to = Phase::kDenied,
            .cause = Cause::kHuman,
            .is_noted = true,
            .text = WithReason("rejected by " + order.by.name, order.reason)};
  }
  if (order.digest != facts.digest) {
    return Refuse(RulingKind::kOtherRequest,
                  "the request that waits is not the one that this digest names; look at it again");
  }
  if (!order.body && HasApproved(facts, order.by.name)) {
    return Refuse(RulingKind::kDecided,
                  order.by.name + " has approved it already; another one must too");
  }
  if (facts.decisions.size() >= limits::kApprovalDecisionsMax) {
    return Refuse(RulingKind::kDecided,
                  "so many decisions were made about it that no more are taken");
  }
  return Approve(order, event);
}

int CountApprovals(const ApprovalFacts& facts) {
  return static_cast<int>(std::count_if(
      facts.decisions.begin(), facts.decisions.end(), [](const ApprovalDecision& one) {
        return one.kind != ApprovalDecision::Kind::kRejected && !one.is_late && !one.is_void;
      }));
}

std::string LastWord(const ApprovalFacts& facts) {
  const ApprovalDecision* const decisive = Decisive(facts);
  return decisive == nullptr ? std::string() : WithReason(decisive->who, decisive->reason);
}

Digest RequestDigest(std::string_view backend, const RenderedRequest& request) {
  std::string parts;
  AppendPart(parts, "recourse-request-v1");
  AppendPart(parts, backend);
  AppendPart(parts, request.method);
  AppendPart(parts, request.target);
  AppendPart(parts, std::to_string(request.headers.size()));
  for (const auto& [name, value] : request.headers) {
    AppendPart(parts, name);
    AppendPart(parts, value);
  }
  AppendPart(parts, request.body);
  return Sha256(parts);
}

}  // namespace recourse
