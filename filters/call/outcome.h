// What an attempt's end proves about its effect, and what the caller is told. Pure.
#pragma once

#include <optional>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/upstream.h"
#include "filters/verdict.h"
#include "policy/model/policy.h"

namespace recourse {

// The normative table (of statuses: status_proofs.h). `values` hold the call and, when there is
// one, the answer. A whole answer is passed on whatever it proves; what we know is told beside it.
// A failure of which `repeat_if` of the tool or of `backend` holds had no effect; one that proves
// nothing stays unknown where the backend de-duplicates: there its repeat is sent all the same.
Verdict Classify(const Tool& tool, const Result<Answer>& result, const CallValues& values,
                 const Backend* backend = nullptr);

// `verdict` about a resend (Cause::kResend): one that was refused or had no effect (a lapsed
// credential, a limit, even "key in use") proves nothing about the attempt before it, whose outcome
// is still unknown; unless what the backend answered says that it knew the key, which nobody but
// this operation has, and no probe can tell more.
Verdict OfResend(Verdict verdict, const KeyRule& rule, const Tool& tool, const Event& resend,
                 const CallValues& values);

// `verdict` where `happened_if` says that the effect may be there: a refusal of what was sent
// again, or of a first attempt that the settle request can tell from somebody else's twin by its
// key.
Verdict OfTwin(Verdict verdict, const Tool& tool, const Event& dispatching,
               const CallValues& values);

// What the end of that attempt of the tool's call proves, first one or sent again.
Verdict ClassifyAttempt(const Event& dispatching, const Tool& tool, const Backend& backend,
                        const Result<Answer>& result, const CallValues& values);

// The transition that makes `verdict` durable. Keeps the answer if the caller gets it and it is not
// larger than kAnswerKeptBytesMax (kept_answer.h says what of it); adds external_ref and the
// rendered undo request where the phase says that there is, or may be, an effect. What cannot be
// rendered is named in the detail.
Transition MakeTransition(const Event& dispatching, const Verdict& verdict, const Tool& tool,
                          const Result<Answer>& result, const CallValues& values);

// Whether the settle request of the tool's writes is asked again once they are undone.
bool IsProbedAfterUndo(const Tool& tool);

// A body that only a clean close of the connection framed is whole as far as HTTP can tell (RFC
// 9112 6.3). What its own form says counts more: JSON that does not read, or could go on, was cut,
// and so were events without the one that says that it is the last.
bool EndsByItself(const Answer& answer);

// True when selectors or conditions of the tool, or of `backend`, read the answer's body.
bool ReadsAnswerBody(const Tool& tool, const Backend* backend = nullptr);

}  // namespace recourse
