// What the ledger's events say to callers. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "filters/call/answers.h"
#include "filters/call/outcome.h"
#include "filters/filter.h"
#include "filters/ledger/ledger.h"

namespace recourse {

// The word of Recourse-Outcome.
std::string_view OutcomeWord(const Event& event);

// For problems about an operation: its event, flow and key.
ProblemFacts FactsOfEvent(const Event& event);

// What those are told that are of unknown outcome: what all of them are, or that no repeat will
// ever settle it.
enum class CanBeAsked : std::uint8_t { kNo, kYes };
void AddUnknown(CanBeAsked can_be_asked, ProblemFacts& facts);

// What a repeat is told about an operation in this state: the kept answer as a replay, else the
// problem that says what is known. An answer that left the outcome unknown is not replayed.
// `origin` kBackend: it is the first to be told.
WriteAnswer AnswerToRepeat(const Event& event, AnswerSource origin);

// The same of an operation that came through another door (`same_as`), whose answers have another
// form.
WriteAnswer AnswerAtOtherDoor(const Event& event);

// What a call is told that somebody else made already, with other credentials: how that one stands.
WriteAnswer AnswerToOthers(const Event& event);

// Answers about an operation that no state of it gives; nullopt: its state is the answer.
std::optional<ErrorCode> RefusalOf(const Begun& begun);
// Says which earlier call stands in the way.
std::string EarlierCallDetail(ErrorCode refusal, const Event& earlier);

// What a call is told whose operation waits for a human, or was approved and is not done yet: 202,
// or 409 as the rule says. `poll`: the path that tells what became of it.
WriteAnswer AnswerToHeld(const Event& event, const ApprovalRule* rule, const std::string& poll);

// What the first caller is told: the backend's answer with our fields, or the verdict's problem.
Outcome AnswerToFirst(const Event& event, const Verdict& verdict, Answer answer);

// The same of its head while the attempt still runs: what is not known yet is pending.
void DecorateBegun(const Event& dispatching, HttpResponse& head);

// True when a caller that got the backend's answer to this event, first or replayed, knows all that
// it will be told, so that the same intent under another trace is a new call.
bool IsFinalWord(const Event& event);

// Of what somebody waited for: another write may have come while it ran.
bool MayStandNoMore(const Event& event);
// It did, or may have, as far as its row knows.
bool IsSuperseded(const Event& event);

}  // namespace recourse
