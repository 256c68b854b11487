// A human's word on an operation of unknown outcome, and the move that this makes. Pure.
#pragma once

#include <expected>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/outcome_resolver.h"
#include "policy/model/policy.h"

namespace recourse {

// The operation was settled so, by a human: the same word once more changes nothing.
bool IsSettledBy(const HumanWord& word, const Event& last);

// Why an operation whose last event is `last` cannot be settled by a human, for people; empty:
// nothing stands in the way.
std::string ObjectionToSettling(const HumanWord& word, const Event& last);

// The move that makes the word durable. The effect of a call is then as if a probe had found it:
// it has its undo request, made with the external_ref. `policy` is the one that the operation began
// under, or nullptr. Fails with a line for people when the external_ref cannot stand in the undo
// request.
std::expected<Transition, std::string> TransitionOf(const HumanWord& word, const Event& last,
                                                    const Policy* policy);

}  // namespace recourse
