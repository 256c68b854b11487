// Which step of a broken flow is undone next, and what an undo request's answer means. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "filters/call/snapshots.h"
#include "filters/ledger/ledger.h"
#include "filters/upstream.h"
#include "policy/model/policy.h"

namespace recourse {

// The step to be undone next: of those that still need it the one whose effect was proved last; in
// a ledger that processes share, the one that began last. nullptr: none is left. `passed` are steps
// that are stuck and may be passed over.
const FlowStep* NextToUndo(const FlowState& state, const std::vector<std::uint64_t>& passed);

// Whether and how a step's effect is taken back. `event` is its last event, `tool` the one of its
// policy version or nullptr when that is lost, `flow` the policy's flow or nullptr.
struct UndoDecision {
  enum class Kind : std::uint8_t {
    kSend,
    kSkip,  // the policy says with a reason that nothing has to be undone
    kPark,
  };
  Kind kind = Kind::kPark;
  std::string reason;  // of kSkip and kPark, for people
};
// Whether the write has removed what the earlier one made. To make that again would leave it there:
// the undo of the earlier one removes it by its old name.
bool Removes(const Event& removal, const Event& earlier);

UndoDecision DecideUndo(const Event& event, const Tool* tool, const Flow* flow);

// The phase that an answer to an undo request proves, as the event's phase. A refused repeat of a
// request whose outcome is unknown proves nothing.
struct UndoVerdict {
  Phase phase = Phase::kUncertain;
  Cause cause = Cause::kAnswer;
  int http_status = 0;
  std::string detail;
  bool is_refused = false;          // by an answer that further tries would get as well
  std::optional<Snapshot> found{};  // set: it was held back, because this stands there by now
  // Set: the backend has taken it on, and this asks whether it is done.
  std::optional<RenderedRequest> question{};
  std::string version{};  // in which it has left the resource; empty: not told
};
UndoVerdict JudgeUndo(const StatusSet& done, const Result<Answer>& answer, bool is_resend);
// The same by all that the rule says; nullptr: 2xx means done.
UndoVerdict JudgeUndoBy(const UndoRule* rule, const Result<Answer>& answer, bool is_resend);

// The same where the backend's protocol says with a 2xx that it failed: a refusal if the tool's
// `on_error` says that this proves that nothing was done.
UndoVerdict OrRefused(UndoVerdict verdict, const Tool* tool, const Backend& backend,
                      const Result<Answer>& answer, bool is_resend);

// The same where `repeat_if` says of a failure that the request is to be made again.
UndoVerdict OrAgain(UndoVerdict verdict, const Tool* tool, const Backend& backend,
                    const Result<Answer>& answer, bool is_resend);

// `verdict` of a success by a rule with `settled_by`, whose backend has only taken it on.
// `captures` are those of the step's path.
UndoVerdict OrTakenOn(UndoVerdict verdict, const Event& step, const UndoRule& rule,
                      const Backend& backend, const Answer& answer, const Pairs& captures);

// How long after it was asked whether it is done the next question follows; never later than the
// end of what is `left` of its time. `since`: it was taken on.
Millis QuestionPause(Millis since, Millis left);

// What the state that was read says about sending the undo of `step`, which kept one. nullopt: send
// it. `shown` is what a human was shown who wants it restored all the same.
std::optional<UndoVerdict> JudgeState(const Event& step, const std::expected<Snapshot, Unread>& now,
                                      const std::optional<Snapshot>& shown, bool is_resend);

// How long after the `attempts`th try the next one follows: doubling, capped, the upper half of it
// drawn by `jitter`. What the backend asks for (Retry-After seconds) is a lower bound, capped too.
Millis UndoPause(int attempts, std::optional<int> retry_after_s, std::uint32_t jitter);

// Seconds that an answer asks to wait for; nullopt: none.
std::optional<int> RetryAfterOf(const Result<Answer>& answer);

}  // namespace recourse
