"""The mutants of `./dev mutants` (mutants.py): small changes of the product's source, each of which
breaks one of its rules. tests/tidy looks that the source still has the texts that they replace.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    rule: str  # that it breaks
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant(
        "join-ignored", "a repeat of a running call joins it",
        "filters/ledger/rules/begin_decision.cpp",
        "      return {.target = target, .kind = Begun::Kind::kRunning};",
        "      return NextAttempt(entry, call, target);",
    ),
    Mutant(
        "unknown-sent-again", "an unknown outcome is never sent again on a guess",
        "filters/ledger/rules/begin_decision.cpp",
        "if (may_resend && HasRoom(entry, call))",
        "if ((may_resend || true) && HasRoom(entry, call))",
    ),
    Mutant(
        "other-arguments-replayed", "a key that is used with other arguments is a conflict",
        "filters/ledger/rules/begin_decision.cpp",
        "if (!same_args && call.on_mismatch == OnMismatch::kReject) {",
        "if (!same_args && call.on_mismatch == OnMismatch::kReject && now_ms < 0) {",
    ),
    Mutant(
        "shown-to-others", "an answer is shown to the credentials that it was given to",
        "filters/ledger/rules/begin_decision.h",
        "  return asks == kNoPrincipal || asks == owner;",
        "  return asks == kNoPrincipal || asks == owner || owner != kNoPrincipal;",
    ),
    Mutant(
        "answered-known-again", "a call of another trace is another one once it was answered",
        "filters/ledger/rules/begin_decision.cpp",
        "  return !IsAnswered(other) && !IsOlderThan(other, call.across_window, now_ms);",
        "  return !IsOlderThan(other, call.across_window, now_ms);",
    ),
    Mutant(
        "overwritten-replayed", "the answer of a PUT is replayed only while its effect stands",
        "filters/ledger/rules/begin_lookup.cpp",
        "  lookup.key_ended = *key_ended;",
        "  lookup.key_ended = std::min(*key_ended, lookup.key_ended);",
    ),
    Mutant(
        "sent-before-durable", "nothing is sent before it is remembered",
        "filters/dispatch/dispatch_filter.cpp",
        "    const Result<void> durable = co_await context.commit->Durable();\n",
        "    const Result<void> durable;\n",
    ),
    Mutant(
        "lost-answer-is-not-sent", "a connection lost after sending proves nothing",
        "filters/call/outcome.cpp",
        "  if (error.delivery() == Delivery::kNotSent) {",
        "  if (error.delivery() != Delivery::kAnswered) {",
    ),
    Mutant(
        "server-error-is-refusal", "a 5xx does not tell whether the backend acted",
        "filters/status_proofs.h",
        "  return StatusProof::kNone;",
        "  return status >= 500 ? StatusProof::kRejected : StatusProof::kNone;",
    ),
    Mutant(
        "late-answer-moves-next-attempt", "an answer moves its own attempt only",
        "filters/ledger/rules/record_outcome.cpp",
        "  if (!is_as_said || entry.attempt != transition.attempt) {",
        "  if (!is_as_said) {",
    ),
    Mutant(
        "crash-forgets-running", "what was running when the process ended is unknown",
        "filters/ledger/engine/recovery.cpp",
        "      transition.to = Phase::kUncertain;",
        "      transition.to = Phase::kNotSent;",
    ),
    Mutant(
        "absent-after-0", "absence counts after absent_after only",
        "filters/settle/probe.cpp",
        " && sent_at - history.since >= *rule.absent_after;",
        " && sent_at >= history.since;",
    ),
    Mutant(
        "undo-order-forward", "steps are undone newest first",
        "filters/saga/undo_plan.cpp",
        "step.success > next->success",
        "step.success < next->success",
    ),
    Mutant(
        "pivot-ignored", "what came before a pivot is not undone",
        "filters/saga/undo_plan.cpp",
        "  if (tool != nullptr && tool->pivot && stays) {",
        "  if (tool != nullptr && tool->pivot && stays && flow == nullptr) {",
    ),
    Mutant(
        "undo-repeated", "an undo request is sent twice only where that does no harm",
        "filters/saga/undo_sender.cpp",
        "  const bool may_repeat = by_human || IsRepeatable(rule, *backend);",
        "  const bool may_repeat = by_human || IsRepeatable(rule, *backend) || attempts_max > 0;",
    ),
    Mutant(
        "fence-off", "a flow that breaks takes no further writes",
        "filters/ledger/model/flow.cpp",
        "  return phase == FlowPhase::kBreaking || phase == FlowPhase::kUndoing ||\n         phase",
        "  return phase",
    ),
    Mutant(
        "deadline-ignored", "a flow's deadline ends it",
        "filters/saga/flow_rules.cpp",
        "  return std::max(Millis(0), *flow->deadline - elapsed);",
        "  return std::max(*flow->deadline, *flow->deadline - elapsed);",
    ),
    Mutant(
        "empty-undo", "what provably had no effect is not undone",
        "filters/ledger/model/flow.cpp",
        "  return MayHaveEffect(step.phase) && step.end",
        "  return step.phase != Phase::kNone && step.end",
    ),
    Mutant(
        "approval-used-twice", "an approval starts one call",
        "filters/ledger/rules/begin_approval.cpp",
        "  if (!**found || (**found)->entry.phase != Phase::kApproved) {",
        "  if (!**found) {",
    ),
    Mutant(
        "approved-by-caller", "who makes a call never approves it",
        "filters/ledger/model/approval.cpp",
        "  if (IsPartOfCaller(order.by.name, event.caller)) {",
        "  if (IsPartOfCaller(order.by.name, event.caller) && order.by.groups.empty()) {",
    ),
    Mutant(
        "approval-of-another-request", "an approval is of the very request that was shown",
        "filters/ledger/model/approval.cpp",
        "  if (order.digest != facts.digest) {",
        "  if (order.digest == Digest()) {",
    ),
    Mutant(
        "approval-outlives-policy", "a changed policy voids what was asked under the one before",
        "filters/ledger/model/approval.cpp",
        "  if (order.policy != event.approval->policy) {",
        "  if (order.policy == Digest()) {",
    ),
    Mutant(
        "latch-off", "after a failed commit nothing more is written",
        "filters/ledger/engine/ledger_log.cpp",
        "  is_latched_ = true;",
        "  is_latched_ = false;",
    ),
    Mutant(
        "chain-unchecked", "a row that was changed, dropped or moved is found",
        "filters/ledger/queries/log_queries.cpp",
        "    if (row->head.prev_hash != hash_) return",
        "    if (row->head.prev_hash == Digest() && seq > 1) return",
    ),
    Mutant(
        "read-answered-by-halves", "what has begun to answer a read is not asked again",
        "proxy/lanes/read_attempt.cpp",
        "  if (saw_bytes && got.error().code() == ErrorCode::kBackendReset) {",
        "  if (saw_bytes && got.error().code() == ErrorCode::kBackendTimeout) {",
    ),
    Mutant(
        "read-sent-thrice", "a read is sent twice at most",
        "proxy/lanes/read_lane.cpp",
        "attempts < limits::kReadAttemptsMax;",
        "attempts <= limits::kReadAttemptsMax;",
    ),
    Mutant(
        "upload-sent-again", "what of a body has streamed on is not there to be sent again",
        "proxy/lanes/read_lane.cpp",
        "  return whole && error.code()",
        "  return (whole || attempts > 0) && error.code()",
    ),
    Mutant(
        "second-read-on-kept", "the second attempt of a read has a connection of its own",
        "proxy/lanes/read_attempt.cpp",
        "      ++record.attempts == 1 && !request_",
        "      ++record.attempts > 0 && !request_",
    ),
    Mutant(
        "read-kept-with-rest", "bytes behind an answer are not the next one",
        "proxy/lanes/read_lane.cpp",
        " && read.sent_whole && read.up.begin == read.up.end;",
        " && read.sent_whole;",
    ),
    Mutant(
        "read-kept-too-long", "a connection is kept no longer than its backend says",
        "proxy/lanes/read_lane.cpp",
        "    const Millis hint{(head.keep_alive_timeout_s - 1) * 1000};",
        "    const Millis hint{(head.keep_alive_timeout_s + 1) * 1000};",
    ),
    Mutant(
        "read-408-is-answer", "a 408 about silence answers no read",
        "proxy/lanes/read_state.h",
        "    return head->status == 408 && !head->keep_alive && whole",
        "    return head->status == 408 && head->keep_alive && whole",
    ),
    Mutant(
        "read-of-nobody", "a client that has left is not waited for",
        "proxy/lanes/read_waits.cpp",
        "  const bool shortens = read.left || read.half_closed;",
        "  const bool shortens = read.half_closed;",
    ),
    Mutant(
        "read-half-closed-waits", "who sends no more is waited for less long",
        "proxy/lanes/read_waits.cpp",
        "  const bool shortens = read.left || read.half_closed;",
        "  const bool shortens = read.left;",
    ),
    Mutant(
        "read-silent-for-ever", "a read waits for a silent backend as long as its tool says",
        "proxy/lanes/read_attempt.cpp",
        "      upstream.Arm(read_.head_due);\n      StartWatch",
        "      upstream.Arm(read_.head_due + read_.patience);\n      StartWatch",
    ),
    Mutant(
        "read-worker-cut", "a backend that shows that it works on a read gets its time again",
        "proxy/lanes/read_attempt.cpp",
        "  read_.head_due = now + read_.patience;\n  read_.upstream->Arm(read_.HasAsked()",
        "  read_.upstream->Arm(read_.HasAsked()",
    ),
    Mutant(
        "write-on-ended", "a kept connection that has ended carries no write",
        "proxy/net/upstream/write_client.cpp",
        "  if (is_reused_ && sight != UpstreamStream::Sight::kQuiet) {",
        "  if (is_reused_ && sight == UpstreamStream::Sight::kBegun) {",
    ),
    Mutant(
        "write-after-answer", "what a backend said before it was asked answers nothing",
        "proxy/net/upstream/write_client.cpp",
        "  if (sight == UpstreamStream::Sight::kLeft) {",
        "  if (sight == UpstreamStream::Sight::kLeft && is_reused_) {",
    ),
    Mutant(
        "write-408-is-answer", "a 408 on a kept connection does not say that a write was read",
        "proxy/net/upstream/write_client.cpp",
        "  if (is_reused_ && head.status == 408) {",
        "  if (!is_reused_ && head.status == 408) {",
    ),
    Mutant(
        "kept-loss-is-unsent", "what a kept connection did not take may have left all the same",
        "proxy/net/upstream/write_client.cpp",
        "  const bool may_have_left = accepted_any_ || is_reused_;",
        "  const bool may_have_left = accepted_any_;",
    ),
    Mutant(
        "write-kept-with-rest", "bytes behind the answer of a write are not the next one",
        "proxy/net/upstream/write_client.cpp",
        "  if (answer.body_complete && buffer.begin == buffer.end) keep_for_ = keep_for;",
        "  if (answer.body_complete) keep_for_ = keep_for;",
    ),
    Mutant(
        "write-kept-unasked", "a write goes on a kept connection only where the policy says so",
        "proxy/net/upstream/write_client.cpp",
        "  const Millis keep_for = reuses_ ? KeepFor(head) : Millis{0};",
        "  const Millis keep_for = KeepFor(head);",
    ),
    Mutant(
        "get-with-body-kept", "nothing follows a GET with a body on its connection",
        "proxy/net/upstream/write_client.cpp",
        "  reuses_ = reuses_ && (request.body.empty() || !IsReadMethod(request.method));",
        "  reuses_ = reuses_ && (request.body.empty() || request.method != \"HEAD\");",
    ),
    Mutant(
        "other-call-recorded", "an outcome is not taken of another call that has its number",
        "filters/ledger/rules/record_outcome.cpp",
        "  if (!IsMeant(transition.key, (**found)->key)) return Fails(OtherCallError());\n",
        "",
    ),
    Mutant(
        "other-call-decided", "a human's word is not taken of another call that has its number",
        "filters/ledger/rules/decide_approval.cpp",
        "  if (!IsMeant(order.key, approval.found.key)) return Fails(OtherCallError());\n",
        "",
    ),
    Mutant(
        "other-call-sent", "an approval is not used up by another call that has its number",
        "filters/ledger/rules/begin_approval.cpp",
        "  if (!IsMeant(call.approved_key, (**found)->key)) {",
        "  if (!IsMeant(call.approved_key, (**found)->key) && known.is_latched) {",
    ),
    Mutant(
        "other-call-answered", "a client that had an answer had that of no other call",
        "filters/ledger/engine/row_writer.cpp",
        "  return attempt.attempt == found.entry.attempt && IsMeant(attempt.key, found.key);",
        "  return attempt.attempt == found.entry.attempt;",
    ),
    Mutant(
        "other-call-marked", "the same over a database",
        "filters/ledger/postgres/lane.cpp",
        " AND (p.key IS NULL OR o.key = p.key)",
        "",
    ),
    Mutant(
        "stream-left-busy", "a process leaves no stream in which a call of it is on its way",
        "filters/ledger/postgres/stream_lease.cpp",
        "const bool is_busy = !store_.open().empty() || ",
        "const bool is_busy = ",
    ),
    Mutant(
        "read-again", "what is decided on what was read first is written on what was read later",
        "filters/ledger/postgres/read_rows.cpp",
        "is_new || IsMark(now->second)",
        "true || IsMark(now->second)",
    ),
    Mutant(
        "other-call-undone", "an undo is of its own step, not of another that has its number",
        "filters/ledger/rules/begin_fence.cpp",
        "  if (is_due) return is_it ? Judged<void>() : Fails(OtherCallError());",
        "  if (is_due) return is_it || is_due ? Judged<void>() : Fails(OtherCallError());",
    ),
    Mutant(
        "other-flow-moved", "a move is of its own flow, not of another that has its number",
        "filters/ledger/rules/move_flow.cpp",
        "  if (!IsThatFlow(move, state)) return Fails(OtherCallError());\n",
        "  (void)IsThatFlow(move, state);\n",
    ),
    Mutant(
        "other-step-stays", "an effect stays by a word on that step alone",
        "filters/ledger/rules/move_flow.cpp",
        "      if (!**now || !IsMeant(step.key, (**now)->key)) return Fails(OtherCallError());",
        "      if (!**now) return Fails(OtherCallError());",
    ),
    Mutant(
        "other-step-seen", "a step that decides and was not seen keeps its flow",
        "filters/ledger/rules/move_flow.cpp",
        "             IsMeant(seen.key, now.key);",
        "             true;",
    ),
    Mutant(
        "other-call-joined", "nobody is told what became of another call",
        "filters/idempotency/idempotency_filter.cpp",
        "    if (joined && *joined && (*joined)->key != running.key) {",
        "    if (joined && *joined && (*joined)->operation != running.operation) {",
    ),
    Mutant(
        "other-call-settled", "a human's word on an outcome is of its own call",
        "filters/settle/human_word.cpp",
        "  return !word.key || *word.key == last.key;",
        "  return !word.key || !word.reason.empty() || *word.key == last.key;",
    ),
    Mutant(
        "other-undo-asked", "what a backend takes on is asked about for its own step",
        "filters/saga/undo_sender.cpp",
        "  return undo.key == UndoKeyOf(step.key, step.operation);",
        "  return undo.key == UndoKeyOf(step.key, step.operation) || undo.undoes != 0;",
    ),
    Mutant(
        "other-flow-worked-on", "what is remembered of a flow is of no other one",
        "filters/saga/flow_table.cpp",
        "entry->began_ms == state.began_ms && ",
        "",
    ),
    Mutant(
        "other-poll", "who asks by an id is told of that call alone",
        "filters/call/poll_token.cpp",
        "  AppendPart(parts, AsView(key));\n",
        "  AppendPart(parts, AsView(key).substr(0, 0));\n",
    ),
    Mutant(
        "approved-in-vain", "what was approved in time is sent, also in the last moment",
        "filters/ledger/model/approval.cpp",
        "  return left + std::max(longer, Millis(0)) <= Millis(0);",
        "  return left + 0 * std::max(longer, Millis(0)) <= Millis(0);",
    ),
    Mutant(
        "approved-for-ever", "what was approved is not sent long after its end",
        "filters/ledger/model/approval.cpp",
        "  const Millis longer = limits::kApprovalSentWithin - std::max(left_then, Millis(0));",
        "  const Millis longer = 9 * limits::kApprovalSentWithin - std::max(left_then, Millis(0));",
    ),
)  # fmt: skip
