// What a human's word, or the end of the time for it, means for an operation that waits for an
// approval. Pure. The decision is durable before DISPATCHING, which uses it up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/model/event.h"
#include "proxy/base/clock.h"
#include "proxy/base/limits.h"

namespace recourse {

// Whoever decides: authenticated by the admin port, never by the agents'.
struct Approver {
  std::string name;
  std::vector<std::string> groups{};
};

// What is to be done with an operation that waits for a human, or was approved.
struct ApprovalOrder {
  enum class Kind : std::uint8_t {
    kApprove,
    kReject,
    kExpire,         // if its time is over; `reason` says why it was not sent, if it was approved
    kPolicyChanged,  // if another policy asked than `policy`
    kCannotRun,      // it was approved and cannot be sent; `reason` says why
  };
  Kind kind = Kind::kApprove;
  std::uint64_t operation = 0;
  std::optional<Digest> key{};  // see IsMeant
  Approver by{};
  Digest digest{};  // of the request that the approver was shown
  Digest policy{};  // of the policy in force
  std::string reason{};
  std::optional<std::string> body{};  // approve it with this body instead
  std::optional<MonoTime> told_by{};  // see FlowMove
};

struct ApprovalRuling {
  enum class Kind : std::uint8_t {
    kTaken,
    kNotAllowed,    // this person may not decide it
    kOtherRequest,  // the digest is not that of the pending request
    kDecided,       // somebody was first, or it is over for another reason
    kExpired,       // its time is over
    kNotDue,        // nothing is to be done yet
  };
  Kind kind = Kind::kTaken;
  std::optional<Phase> to{};  // the operation moves, perhaps to where it is; unset: it does not
  Cause cause = Cause::kNone;
  bool is_noted = false;  // the order becomes one of the decisions
  std::string text{};     // for people: what happened, or why nothing did
};
// `is_over`: its time has passed.
ApprovalRuling JudgeOrder(const ApprovalOrder& order, const Event& event, bool is_over);
// Whether its time has passed, with so much left of what there was to decide it.
bool IsOverInTime(const Event& event, Millis left);
// Where nobody knows how long ago it was asked.
inline constexpr Millis kNoTimeLeft = -limits::kApprovalSentWithin;

// What the ledger made of an order.
struct ApprovalOutcome {
  ApprovalRuling::Kind kind = ApprovalRuling::Kind::kTaken;
  std::string text;
  Event event;  // latest one of the operation
  bool moved = false;
};

// An operation that waits, and how long it still may.
struct PendingApproval {
  Event event;
  Millis left{};
};

// Approvers whose word counts: each once, for the request as it is now.
int CountApprovals(const ApprovalFacts& facts);
// "ann: ok, checked", of the decision that settled it; empty: nobody has decided.
std::string LastWord(const ApprovalFacts& facts);
// Tells a request that would be sent to `backend` from every other one.
Digest RequestDigest(std::string_view backend, const RenderedRequest& request);

}  // namespace recourse
