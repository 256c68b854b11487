"""Does the suite notice a broken rule? `./dev mutants [NAME...]`

Each mutant is one small change of the product's source that breaks one of its rules. They are made
one by one in a copy of the tree (build/mutants/tree), the C++ tests that know nothing of sockets
are built and run there, and a table says which test noticed. Ends with 1 when none did, or when the
text that a mutant replaces is no longer found: the source has moved on, and the mutant must follow.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "build/mutants"
TREE = WORK / "tree"
# Quick ones first: the first test that fails is enough.
SUITES = ("ledger_test", "filters_test", "sim_test")
COPIED = ("CMakeLists.txt", "CMakePresets.json", "proxy", "filters", "policy", "tests", "bench")
TEST_SECONDS_MAX = 900
SIM_SEEDS = "1000"


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
        "  return !IsAnswered(other) && !IsOlderThan(other, call.across_window, facts.now_ms);",
        "  return !IsOlderThan(other, call.across_window, facts.now_ms);",
    ),
    Mutant(
        "overwritten-replayed", "the answer of a PUT is replayed only while its effect stands",
        "filters/ledger/rules/begin_lookup.cpp",
        "  lookup.key_is_superseded = *key_is_superseded;",
        "  lookup.key_is_superseded = *key_is_superseded && lookup.key_is_superseded;",
    ),
    Mutant(
        "sent-before-durable", "nothing is sent before it is remembered",
        "filters/dispatch/dispatch_filter.cpp",
        "    const Result<void> durable = co_await commit->Durable();\n",
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
        "if (entry.phase != transition.from || entry.attempt != transition.attempt) {",
        "if (entry.phase != transition.from) {",
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
)  # fmt: skip


def files_of(top):
    """Paths of everything that is copied, relative to `top`."""
    for name in COPIED:
        for file in [top / name] if (top / name).is_file() else (top / name).rglob("*"):
            if file.is_file() and not {"node_modules", "__pycache__"} & set(file.parts):
                yield file.relative_to(top)


def copy_tree():
    """The tree as it stands, beside what was built there: only what differs is written anew."""
    TREE.mkdir(parents=True, exist_ok=True)
    wanted = set(files_of(ROOT))
    for gone in set(files_of(TREE)) - wanted:
        (TREE / gone).unlink()
    for file in wanted:
        target = TREE / file
        if target.exists() and target.read_bytes() == (ROOT / file).read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, target)


def build(jobs):
    """True when all suites were built."""
    done = subprocess.run(
        ["ninja", "-C", str(TREE / "build/dev"), "-j", str(jobs), *SUITES],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (WORK / "build.log").write_text(done.stdout + done.stderr)
    return done.returncode == 0


def failure():
    """Name of the first test that fails; None: all pass."""
    for suite in SUITES:
        binary = TREE / "build/dev/tests" / suite
        try:
            done = subprocess.run(
                [binary, "--gtest_fail_fast", "--gtest_brief=1"], cwd=TREE,
                capture_output=True, text=True, errors="replace", check=False,
                timeout=TEST_SECONDS_MAX, env={**os.environ, "RECOURSE_SIM_SEEDS": SIM_SEEDS},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{suite}: no end in {TEST_SECONDS_MAX} s"
        if done.returncode == 0:
            continue
        (WORK / "test.log").write_text(done.stdout + done.stderr)
        named = re.search(r"\[  FAILED  \] (\S+?)[,\s]", done.stdout)
        return f"{suite}: {named[1] if named else f'ended with {done.returncode}'}"
    return None


def judge(mutant, jobs):
    """(is caught, what to say of it)"""
    file = TREE / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        return False, f"its text is there {text.count(mutant.old)} times: mend tests/mutants.py"
    try:
        file.write_text(text.replace(mutant.old, mutant.new))
        if not build(jobs):
            return False, "it does not compile: mend tests/mutants.py (build/mutants/build.log)"
        caught = failure()
    finally:
        file.write_text(text)
    return caught is not None, caught or "SURVIVED: " + mutant.rule


def chosen(names):
    known = {mutant.name: mutant for mutant in MUTANTS}
    for name in names:
        if name not in known:
            sys.exit(f"mutants: '{name}' is none of them; there are: {' '.join(known)}")
    return [known[name] for name in names] or list(MUTANTS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    mutants = chosen(arguments.names)
    copy_tree()
    if not (TREE / "build/dev/build.ninja").exists():
        configure = ["cmake", "--preset", "dev", "--log-level=NOTICE"]
        subprocess.run(configure, cwd=TREE, check=True, stdout=subprocess.DEVNULL)
    print("building the tree as it is", flush=True)
    if not build(arguments.jobs):
        sys.exit("mutants: the tree does not build as it is; see build/mutants/build.log")
    if found := failure():
        sys.exit(f"mutants: the tree fails as it is: {found}; see build/mutants/test.log")
    survivors = 0
    print(f"{'MUTANT':<32}{'CAUGHT BY'}", flush=True)
    for mutant in mutants:
        is_caught, said = judge(mutant, arguments.jobs)
        survivors += not is_caught
        print(f"{mutant.name:<32}{said}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants were caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
