#include "filters/saga/undo_sender.h"

#include <fmt/format.h>

#include <utility>

#include "filters/call/snapshots.h"
#include "filters/call/stored_call.h"
#include "filters/call/stored_response.h"
#include "filters/call/taken_on.h"
#include "filters/call/upstream_request.h"
#include "filters/ledger/model/row_id.h"
#include "filters/ledger/model/standing_notes.h"
#include "policy/model/principal.h"
#include "policy/model/tool_names.h"
#include "policy/undo/undo_choice.h"
#include "proxy/base/crash_point.h"

namespace recourse {
namespace {

constexpr std::string_view kHidden = "(hidden)";
constexpr std::string_view kIfMatch = "If-Match";
constexpr std::string_view kNewId = "; what was deleted was made again, under another id";
constexpr int kPreconditionFailed = 412;
constexpr std::string_view kNothingToCompare =
    "what it left is not known, so nobody can tell whether it was changed since; a retry sends its "
    "undo all the same";
constexpr std::string_view kNobodyKnowsWhich =
    "the policy has several undo requests by now, and nobody knows by which one this was made";
constexpr std::string_view kNoUndoCredential = "a credential of the undo request cannot be read";

bool IsRepeatable(const UndoRule* rule, const Backend& backend) {
  if (rule == nullptr) return false;
  return rule->repeatable == Repeatable::kYes ||
         (rule->repeatable == Repeatable::kByKey && KeyRuleOfUndo(rule, backend).at.exists());
}

HttpRequest BareRequest(const Event& step, const UndoRule* rule, const Backend& backend) {
  HttpRequest request{step.undo->method, backend.base_path + step.undo->target, step.undo->headers,
                      step.undo->body};
  DropTerms(request.headers);
  SetHeader(request.headers, "Accept-Encoding", "identity");
  const KeyRule& keyed = KeyRuleOfUndo(rule, backend);
  const std::string key = KeyText(keyed.form, UndoKeyOf(step.key, step.operation));
  if (keyed.at.is_field()) {
    SetHeader(request.headers, keyed.at.name, key);
  } else if (keyed.at.exists()) {
    (void)PutIn({{{keyed.at, key}}, !rule->request.form.empty()}, request);
  }
  return request;
}

// Of the undo request itself, as its step has it.
void NoteOwnContent(const Standing& step, Standing& stands) {
  if (const auto content = NoteIn(step, NoteKind::kUndoContent)) {
    stands.ended_by.push_back(NoteOf(NoteKind::kContent, *content));
  }
  if (stands.kind != WriteKind::kPatch) return;
  stands.values = UndoMembers(step);
  stands.members = stands.values.empty() ? Members::kUnknown : Members::kListed;
}

// What the step has set, by a call by name, is set to something else.
void NoteSetBack(const Event& step, Event& undo) {
  undo.resource = step.resource;
  undo.stands.kind = WriteKind::kPatch;
  undo.stands.is_named = true;
  undo.stands.values = step.stands.values;
  for (MemberDigest& member : undo.stands.values) member.value = ~member.value;
  undo.stands.members = undo.stands.values.empty() ? Members::kUnknown : Members::kListed;
}

NewOperation OperationOf(const Event& step, const Backend& backend) {
  NewOperation call;
  call.event.key = UndoKeyOf(step.key, step.operation);
  call.event.args_hash = call.event.key;
  call.event.undoes = step.operation;
  call.event.undo_class = step.undo_class;
  call.event.tool = step.tool;
  call.event.backend = backend.name;
  call.event.caller = step.caller;
  call.event.trace_id = step.trace_id;
  call.event.flow = step.flow;
  call.event.policy_version = step.policy_version;
  const HttpRequest request{step.undo->method, step.undo->target, step.undo->headers,
                            step.undo->body};
  NameCall(backend, request, request.target.substr(0, request.target.find('?')), call.event);
  if (step.stands.undo != Mark{}) {
    call.event.resource = AsDigest(step.stands.undo);
    call.event.stands.kind = KindOfMethod(request.method);
    call.event.stands.is_named = true;
    NoteOwnContent(step.stands, call.event.stands);
    for (const Mark& own : OwnUndosOf(step.stands)) call.event.stands.leaves.push_back(own);
  } else if (step.resource != Digest{} && IsCallByName(step.method)) {
    NoteSetBack(step, call.event);
  } else if (step.stands.kind == WriteKind::kPatch) {
    NoteSetBack(step, call.event);
    call.event.stands.made = step.stands.made;
  }
  return call;
}

// Not so of another call that has its number: see IsMeant.
bool IsUndoOf(const Event& step, const Event& undo) {
  return undo.key == UndoKeyOf(step.key, step.operation);
}

// What became of the undo, in the backend's words. Without its tool nobody knows what of that has
// to be redacted.
void KeepWhatWasSaid(const Answer& answer, const Tool* tool, Transition& transition) {
  if (tool == nullptr) return;
  auto kept = StoredResponse(answer, tool->keep_headers, tool->redact);
  if (!kept) return;
  CutToSaid(*kept);
  transition.answer_kept = true;
  transition.answer = std::move(*kept);
}

// Of an undo that is not sent now.
UndoOutcome KnownOutcome(const Begun& begun, bool may_repeat, std::uint32_t jitter) {
  const auto stuck = [](std::string reason) {
    return UndoOutcome{UndoOutcome::Kind::kStuck, std::move(reason), {}};
  };
  switch (begun.kind) {
    case Begun::Kind::kSuperseded:
      return {UndoOutcome::Kind::kNotNeeded, "a later call has removed what it made", {}};
    case Begun::Kind::kRunning:
      return {UndoOutcome::Kind::kAgain, "the undo is running", UndoPause(1, {}, jitter)};
    case Begun::Kind::kReplay:
      if (begun.event.phase == Phase::kSucceeded) return {UndoOutcome::Kind::kDone, {}, {}};
      return stuck(begun.event.detail);
    case Begun::Kind::kUnknown:
      return stuck(may_repeat
                       ? fmt::format("its undo request was tried {} times, and nobody knows "
                                     "whether it took effect: {}",
                                     begun.event.attempt, begun.event.detail)
                       : "nobody knows whether its undo request took effect, and the policy does "
                         "not say that it may be repeated");
    case Begun::Kind::kExhausted:
      return stuck(fmt::format("its undo request was tried {} times: {}", begun.event.attempt,
                               begun.event.detail));
    default:
      return stuck("its undo is not remembered as it should be");
  }
}

// Somebody changed it after it was read: the next try reads that.
UndoVerdict LostRace(bool is_resend) {
  UndoVerdict verdict;
  verdict.phase = is_resend ? Phase::kUncertain : Phase::kNotSent;
  verdict.http_status = kPreconditionFailed;
  verdict.detail = "the backend answered 412: it was changed a moment ago";
  return verdict;
}

// Its name goes with what is deleted.
bool MakesAgain(const Event& step) {
  return step.state && step.state->ours.is_gone && step.undo->method == "POST";
}

// Reads what the undo would overwrite, with its credentials.
std::expected<HttpRequest, std::string> StateRequest(const Event& step, const UndoRule* rule,
                                                     const Backend& backend,
                                                     const ReadSecret& read_secret) {
  HttpRequest request = SnapshotRequest(step.state->request, backend);
  for (const std::string& name : rule->from_call) {
    const std::string* const value = FindHeader(step.undo->headers, name);
    if (value != nullptr) SetHeader(request.headers, name, *value);
  }
  if (auto added = AddSecrets(rule->secrets, read_secret, request.headers); !added) {
    return std::unexpected(std::move(added.error()));
  }
  return request;
}

}  // namespace

std::expected<HttpRequest, std::string> UndoRequest(const Event& step, const UndoRule* rule,
                                                    const Backend& backend,
                                                    const ReadSecret& read_secret) {
  HttpRequest request = BareRequest(step, rule, backend);
  if (rule == nullptr) return request;
  if (auto added = AddSecrets(rule->secrets, read_secret, request.headers); !added) {
    return std::unexpected(std::move(added.error()));
  }
  return request;
}

HttpRequest UndoPreview(const Event& step, const UndoRule* rule, const Backend& backend) {
  HttpRequest request = BareRequest(step, rule, backend);
  if (FindHeader(request.headers, kSessionField) != nullptr) {
    SetHeader(request.headers, kSessionField, std::string(kHidden));
  }
  if (rule == nullptr) return request;
  for (const SecretHeader& secret : rule->secrets) {
    SetHeader(request.headers, secret.name, std::string(kHidden));
  }
  for (const std::string& name : rule->from_call) {
    if (FindHeader(request.headers, name) != nullptr) {
      SetHeader(request.headers, name, std::string(kHidden));
    }
  }
  return request;
}

Task<UndoOutcome> UndoSender::Try(const Event& step, std::shared_ptr<const Policy> policy,
                                  int attempts_max, bool by_human, std::uint32_t jitter,
                                  std::uint64_t earlier) {
  const Backend* const backend = policy ? FindBackend(*policy, step.backend) : nullptr;
  if (backend == nullptr) {
    co_return UndoOutcome{
        UndoOutcome::Kind::kStuck, "no policy says where backend " + step.backend + " is", {}};
  }
  const OwnRoom room(parts_.keep);
  if (!room.is_there) {
    co_return UndoOutcome{UndoOutcome::Kind::kAgain, std::string(kNoRoom),
                          UndoPause(1, {}, jitter)};
  }
  const Tool* const tool = policy->FindTool(step.tool);
  const UndoRule* const rule = UndoOf(tool, *step.undo);
  if (rule == nullptr && tool != nullptr && tool->undo && !by_human) {
    co_return UndoOutcome{UndoOutcome::Kind::kStuck, std::string(kNobodyKnowsWhich), {}};
  }
  const bool must_compare = rule != nullptr && rule->only_if_unchanged;
  const bool compares = must_compare && step.state && tool->before;
  if (must_compare && !compares && !by_human) {
    co_return UndoOutcome{UndoOutcome::Kind::kStuck, std::string(kNothingToCompare), {}};
  }
  Tried tried{step, policy, tool, rule, *backend, compares, {}, jitter, room.keeper.get()};
  if (compares && by_human && earlier != 0) {
    auto last = co_await parts_.ledger.Read(earlier, parts_.executor);
    if (last && IsUndoOf(step, *last)) tried.shown = std::move(last->found);
  }
  if (auto taken_on = co_await TakenOn(tried, earlier)) {
    UndoOutcome asked = co_await AskWhetherDone(tried, std::move(*taken_on));
    // A human may have it sent again, once it should have been done.
    if (asked.kind != UndoOutcome::Kind::kStuck || !by_human) co_return asked;
  }
  NewOperation call = OperationOf(step, *backend);
  if (compares) call.event.state = OwnMoves::MoveOf(step);
  call.attempts_max = attempts_max;
  const bool may_repeat = by_human || IsRepeatable(rule, *backend);
  call.may_resend = may_repeat;
  const bool rests_on_key = rule != nullptr && rule->repeatable == Repeatable::kByKey;
  if (rests_on_key && !by_human) call.key_lives = backend->key.lives;
  // A refusal stands until a human says otherwise.
  call.failed_ttl.reset();
  if (!by_human) call.failed_ttl = Millis::max();
  auto begun = co_await parts_.ledger.Begin(std::move(call), parts_.executor);
  if (!begun) {
    const bool is_ours = begun.error().code() == ErrorCode::kInternal;
    co_return UndoOutcome{is_ours ? UndoOutcome::Kind::kStuck : UndoOutcome::Kind::kAgain,
                          std::string(begun.error().detail()), UndoPause(1, {}, jitter)};
  }
  if (begun->kind == Begun::Kind::kFresh) co_return co_await Send(tried, std::move(*begun));
  UndoOutcome known = KnownOutcome(*begun, may_repeat, jitter);
  if (known.kind == UndoOutcome::Kind::kNotNeeded) {
    known.reason = fmt::format("step {} ({}) needed no undo: {}", PrintRowId(step.operation),
                               step.tool, known.reason);
  }
  const bool may_be_seen = compares && begun->event.phase == Phase::kUncertain;
  if (!may_be_seen || known.kind != UndoOutcome::Kind::kStuck) co_return known;
  co_return co_await FindOut(tried, std::move(begun->event), std::move(known.reason));
}

std::unique_ptr<UpstreamConnection> UndoSender::Open(const Tried& tried) {
  std::optional<Backend> own;
  return parts_.upstream.Open(CalledFor(tried.tool, tried.backend, own));
}

Task<Result<Answer>> UndoSender::Ask(const Tried& tried, HttpRequest request, int attempt) {
  const auto connection = Open(tried);
  connection->MayOpenSession();
  connection->HoldAnswerFor(tried.keeper);
  const Result<void> connected = co_await connection->Connected();
  if (!connected) co_return std::unexpected(connected.error());
  co_return co_await ExchangeTraced(
      *connection, std::move(request), parts_.clock.Now() + limits::kProbeTimeout,
      limits::kProbeAnswerBytesMax, parts_.tracing, parts_.clock,
      OwnRequest(OwnRequest::Kind::kProbe, tried.step, tried.policy, tried.backend, attempt));
}

Task<std::expected<Snapshot, Unread>> UndoSender::ReadState(const Tried& tried, int attempt) {
  using Read = std::expected<Snapshot, Unread>;
  auto request = StateRequest(tried.step, tried.rule, tried.backend, parts_.read_secret);
  if (!request) co_return Read(std::unexpected(Unread{std::move(request.error()), true}));
  const Result<Answer> answer = co_await Ask(tried, std::move(*request), attempt);
  co_return ReadSnapshot(*tried.tool->before, answer, true);
}

Task<std::optional<UndoVerdict>> UndoSender::Compare(const Tried& tried, int attempt,
                                                     bool is_resend, Headers& fields) {
  const auto now = co_await ReadState(tried, attempt);
  auto judged = now;
  if (judged && moves_.LeadsTo(tried.step, judged->version)) {
    judged->version = tried.step.state->ours.version;
  }
  auto verdict = JudgeState(tried.step, judged, tried.shown, is_resend);
  if (verdict && verdict->found) verdict->found = *now;
  if (verdict && is_resend && now) NoteOwnVersion(tried.step, *now, *verdict);
  const auto& version = tried.tool->before->version;
  if (!verdict && version && IsEntityTag(*version) && IsStrongTag(TagOf(now->version))) {
    SetHeader(fields, std::string(kIfMatch), std::string(TagOf(now->version)));
  }
  co_return verdict;
}

Task<UndoOutcome> UndoSender::FindOut(const Tried& tried, Event unknown, std::string otherwise) {
  const auto now = co_await ReadState(tried, unknown.attempt);
  auto verdict = JudgeState(tried.step, now, {}, true);
  if (!verdict || verdict->phase != Phase::kSucceeded) {
    co_return UndoOutcome{UndoOutcome::Kind::kStuck, std::move(otherwise), {}};
  }
  NoteOwnVersion(tried.step, *now, *verdict);
  co_return co_await Record(unknown, Phase::kUncertain, tried, std::move(*verdict),
                            std::unexpected(Error()));
}

void UndoSender::NoteOwnVersion(const Event& step, const Snapshot& now,
                                UndoVerdict& verdict) const {
  const bool is_done = verdict.phase == Phase::kSucceeded && !now.is_gone;
  if (is_done && moves_.IsNextAfter(step, now.version)) verdict.version = now.version;
}

Task<std::optional<Event>> UndoSender::TakenOn(const Tried& tried, std::uint64_t earlier) {
  if (earlier == 0 || tried.rule == nullptr || !tried.rule->settled_by) co_return std::nullopt;
  auto event = co_await parts_.ledger.Read(earlier, parts_.executor);
  if (!event || event->phase != Phase::kUncertain || !event->task) co_return std::nullopt;
  if (!IsUndoOf(tried.step, *event)) co_return std::nullopt;
  co_return std::move(*event);
}

Task<UndoOutcome> UndoSender::AskWhetherDone(const Tried& tried, Event taken_on) {
  const SettledByRule& settled_by = *tried.rule->settled_by;
  HttpRequest request{taken_on.task->method, tried.backend.base_path + taken_on.task->target,
                      taken_on.task->headers, taken_on.task->body};
  SetHeader(request.headers, "Accept-Encoding", "identity");
  SetHeader(request.headers, "Cache-Control", "no-cache");
  // Without its credential the backend says so.
  (void)AddSecrets(tried.rule->secrets, parts_.read_secret, request.headers);
  const Result<Answer> answer = co_await Ask(tried, std::move(request), taken_on.attempt);
  const Pairs captures = CapturesOf(tried.step, *tried.policy);
  CallValues values;
  values.path = &captures;
  values.external_ref = tried.step.external_ref;
  if (answer && SaysDone(settled_by, *answer, values)) {
    UndoVerdict verdict;
    verdict.phase = Phase::kSucceeded;
    verdict.detail = "settled_by says it is done";
    verdict = co_await ThenProbe(tried, std::move(verdict));
    co_return co_await Record(taken_on, Phase::kUncertain, tried, std::move(verdict),
                              std::unexpected(Error()));
  }
  // Also over restarts.
  const Millis since(ToUnixMillis(parts_.clock.WallNow()) - taken_on.wall_ms);
  const Millis left = settled_by.deadline - since;
  if (left <= Millis(0)) {
    co_return UndoOutcome{
        UndoOutcome::Kind::kStuck,
        "its undo was taken on, and settled_by has not said before its deadline that it is done",
        {}};
  }
  co_return UndoOutcome{UndoOutcome::Kind::kAgain, taken_on.detail, QuestionPause(since, left)};
}

Task<UndoOutcome> UndoSender::Send(const Tried& tried, Begun begun) {
  const bool is_resend = begun.event.cause == Cause::kResend;
  const Backend& backend = tried.backend;
  const MonoTime deadline = parts_.clock.Now() + backend.timeout.value_or(limits::kWriteTimeout);
  std::unique_ptr<UpstreamConnection> connection;
  if (!tried.compares) connection = Open(tried);
  const Result<void> durable = co_await begun.commit->Durable();
  if (!durable) {
    co_return UndoOutcome{UndoOutcome::Kind::kAgain, "the event log cannot be written",
                          UndoPause(1, {}, tried.jitter)};
  }
  RC_CRASH_POINT("k18");
  Headers fields;
  if (tried.compares) {
    auto verdict = co_await Compare(tried, begun.event.attempt, is_resend, fields);
    if (verdict) {
      co_return co_await Record(begun.event, Phase::kDispatching, tried, std::move(*verdict),
                                std::unexpected(Error()));
    }
    connection = Open(tried);
  }
  connection->MayOpenSession();
  connection->HoldAnswerFor(tried.keeper);
  connection->SendOnlyWith(begun.commit->permit());
  const Result<void> connected = co_await connection->Connected();
  std::string unreadable;  // why the request cannot be completed
  Result<Answer> answer = connected ? Result<Answer>(Answer()) : std::unexpected(connected.error());
  if (connected) {
    auto request = UndoRequest(tried.step, tried.rule, backend, parts_.read_secret);
    if (request) {
      for (const auto& [name, value] : fields) SetHeader(request->headers, name, value);
      OwnRequest told(OwnRequest::Kind::kUndo, tried.step, tried.policy, backend,
                      begun.event.attempt);
      answer = co_await ExchangeTraced(*connection, *request, deadline, limits::kAnswerBytesMax,
                                       parts_.tracing, parts_.clock, std::move(told));
    } else {
      unreadable = std::move(request.error());
      answer = std::unexpected(Error(ErrorCode::kInternal, kNoUndoCredential, Delivery::kNotSent));
    }
  }
  RC_CRASH_POINT("k20");
  UndoVerdict verdict = JudgeUndoBy(tried.rule, answer, is_resend);
  verdict = OrRefused(std::move(verdict), tried.tool, backend, answer, is_resend);
  verdict = OrAgain(std::move(verdict), tried.tool, backend, answer, is_resend);
  if (!unreadable.empty()) verdict.detail = std::move(unreadable);
  if (!fields.empty() && verdict.http_status == kPreconditionFailed) verdict = LostRace(is_resend);
  if (tried.rule != nullptr && answer) {
    verdict = OrTakenOn(std::move(verdict), tried.step, *tried.rule, backend, *answer,
                        CapturesOf(tried.step, *tried.policy));
  }
  verdict = co_await ThenProbe(tried, std::move(verdict));
  if (MakesAgain(tried.step) && verdict.phase == Phase::kSucceeded) verdict.detail += kNewId;
  if (tried.compares && verdict.phase == Phase::kSucceeded && answer) {
    verdict.version = VersionTold(*tried.tool->before, *answer);
  }
  co_return co_await Record(begun.event, Phase::kDispatching, tried, std::move(verdict),
                            std::move(answer));
}

Task<UndoVerdict> UndoSender::ThenProbe(const Tried& tried, UndoVerdict verdict) {
  const bool is_asked = tried.rule != nullptr && tried.rule->then_probe;
  if (verdict.phase != Phase::kSucceeded || !is_asked) co_return verdict;
  const bool is_gone =
      parts_.settling != nullptr && co_await parts_.settling->SaysGone(tried.step, parts_.executor);
  if (is_gone) co_return verdict;
  verdict.phase = Phase::kUncertain;
  verdict.detail += ", but its settle request does not show that the effect is gone";
  co_return verdict;
}

Task<UndoOutcome> UndoSender::Record(const Event& undo, Phase from, const Tried& tried,
                                     UndoVerdict verdict, Result<Answer> answer) {
  Transition transition = Transition::Of(undo);
  transition.from = from;
  transition.to = verdict.phase;
  transition.cause = verdict.cause;
  transition.http_status = verdict.http_status;
  transition.detail = verdict.detail;
  transition.found = verdict.found;
  transition.task = verdict.question;
  if (!verdict.version.empty()) transition.ours = Snapshot{.version = verdict.version};
  if (answer && verdict.http_status != 0) {
    KeepWhatWasSaid(*answer, tried.tool, transition);
  }
  const auto recorded = co_await RecordWithRetry(parts_.ledger, std::move(transition),
                                                 parts_.executor, parts_.record_pause);
  if (!recorded) {
    co_return UndoOutcome{UndoOutcome::Kind::kAgain, std::string(recorded.error().detail()),
                          UndoPause(1, {}, tried.jitter)};
  }
  moves_.Note(*recorded);
  co_return OutcomeOf(undo, tried, verdict, answer);
}

UndoOutcome UndoSender::OutcomeOf(const Event& undo, const Tried& tried, const UndoVerdict& verdict,
                                  const Result<Answer>& answer) const {
  const auto stuck = [](std::string reason) {
    return UndoOutcome{UndoOutcome::Kind::kStuck, std::move(reason), {}};
  };
  if (verdict.found) return stuck(verdict.detail);
  if (verdict.question) {
    return {UndoOutcome::Kind::kAgain, verdict.detail, QuestionPause(Millis(0), Millis::max())};
  }
  switch (verdict.phase) {
    case Phase::kSucceeded:
      return {UndoOutcome::Kind::kDone, {}, {}};
    case Phase::kRejected:
      return stuck("its undo request was refused: " + verdict.detail);
    case Phase::kUncertain:
      if (verdict.is_refused) {
        return stuck("its undo request was refused after a try that nobody knows the outcome of: " +
                     verdict.detail);
      }
      if (tried.rule == nullptr || tried.rule->repeatable == Repeatable::kNo) {
        return stuck("nobody knows whether its undo request took effect (" + verdict.detail +
                     "), and the policy does not say that it may be repeated");
      }
      break;
    default:
      break;
  }
  return {UndoOutcome::Kind::kAgain, verdict.detail,
          UndoPause(undo.attempt, RetryAfterOf(answer), tried.jitter)};
}

}  // namespace recourse
