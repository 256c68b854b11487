// Requests that a backend takes on and finishes later (`settled_by`). Pure.
#pragma once

#include "filters/upstream.h"
#include "policy/model/policy.h"
#include "policy/template/template.h"

namespace recourse {

// What is recorded of a request whose backend works on, whatever it answered.
inline constexpr int kTakenOn = 202;
// Whether the answer to the question of `rule` says that it is done. `values`: all but the answer.
bool SaysDone(const SettledByRule& rule, const Answer& answer, CallValues values);

}  // namespace recourse
