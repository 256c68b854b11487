#include "filters/ledger/model/open_flows.h"

#include <algorithm>
#include <utility>

#include "proxy/base/bytes.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

bool HasOpenStep(const FlowState& state) {
  return std::any_of(state.steps.begin(), state.steps.end(),
                     [](const FlowStep& step) { return IsOpen(step.phase); });
}

// A step that waits for a human is unfinished business too.
bool MayIdle(const FlowState& state) {
  return state.phase == FlowPhase::kOpen && !state.has_deadline && !HasOpenStep(state) &&
         std::none_of(state.steps.begin(), state.steps.end(),
                      [](const FlowStep& step) { return IsClaim(step.phase); });
}

// News is of late steps mostly.
FlowStep* FindStep(FlowState& state, std::uint64_t operation) {
  const auto at = std::find_if(state.steps.rbegin(), state.steps.rend(),
                               [&](const FlowStep& step) { return step.operation == operation; });
  return at == state.steps.rend() ? nullptr : &*at;
}

// Such a flow may live as long as its agent, and never ends.
bool MayForget(const FlowState& state) {
  return state.phase == FlowPhase::kOpen && !state.has_deadline;
}

void TakeUndo(FlowState& state, const StepUpdate& news) {
  FlowStep* const step = FindStep(state, news.undoes);
  if (step == nullptr) return;
  step->undo = news.operation;
  step->undo_phase = news.phase;
  step->undo_attempts = news.attempt;
}

void TakeStep(FlowState& state, const StepUpdate& news) {
  FlowStep* step = FindStep(state, news.operation);
  if (step == nullptr) {
    if (state.steps.size() >= limits::kFlowStepsMax && MayForget(state)) {
      const auto oldest = std::ranges::find_if(
          state.steps, [](const FlowStep& known) { return IsFinal(known.phase); });
      if (oldest != state.steps.end()) state.steps.erase(oldest);
    }
    state.steps.push_back({.operation = news.operation});
    step = &state.steps.back();
  }
  const bool had_effect = step->phase == Phase::kSucceeded || step->phase == Phase::kAnswerLost;
  step->phase = news.phase;
  step->has_undo = news.has_undo;
  const bool has_effect = news.phase == Phase::kSucceeded || news.phase == Phase::kAnswerLost;
  // A row that retention carried on, or that completed a lost answer, proves nothing anew.
  if (has_effect && (!had_effect || step->success == 0)) step->success = news.row;
}

bool Begins(const StepUpdate& news) { return news.phase == Phase::kDispatching && !news.is_resend; }

// The outcome of a step that its flow did not wait for.
bool IsOfEarlierFlow(const FlowState& state, const StepUpdate& news) {
  return news.undoes == 0 && !Begins(news) && news.operation < state.number &&
         std::none_of(
             state.steps.begin(), state.steps.end(),
             [&](const FlowStep& step) { return step.operation == news.operation; });
}

// The first step of a policy's flow names it, under the policy that the step began under; a
// deadline counts if that flow has it.
void TakeRules(FlowState& state, const StepUpdate& news) {
  const bool names = state.name.empty() && !news.flow_name.empty();
  const bool has_deadline = news.has_deadline && (names || state.name == news.flow_name);
  if (names) state.name = news.flow_name;
  const bool is_ruled = names || (has_deadline && !state.has_deadline);
  state.has_deadline = state.has_deadline || has_deadline;
  if (news.policy_version == state.policy_version) return;
  std::string other(news.policy_version);
  if (is_ruled) std::swap(other, state.policy_version);
  std::erase(state.other_versions, state.policy_version);
  if (std::ranges::find(state.other_versions, other) == state.other_versions.end()) {
    state.other_versions.push_back(std::move(other));
  }
}

}  // namespace

// An event of observe mode never answers a call, and is no step of a flow.
std::optional<StepUpdate> NewsOf(const Event& event) {
  if (event.verdict != ObserveVerdict::kNone) return std::nullopt;
  if (!event.is_step && event.undoes == 0) return std::nullopt;
  return StepUpdate{.row = event.id,
                    .wall_ms = event.wall_ms,
                    .operation = event.operation,
                    .phase = event.phase,
                    .attempt = event.attempt,
                    .has_undo = event.undo.has_value(),
                    .undoes = event.undoes,
                    .has_deadline = event.flow_has_deadline,
                    .is_resend = event.cause == Cause::kResend || event.cause == Cause::kTooLate,
                    .caller = event.caller,
                    .trace_id = event.trace_id,
                    .flow = event.flow,
                    .flow_name = event.flow_name,
                    .policy_version = event.policy_version};
}

void TakeNews(FlowState& state, const StepUpdate& news) {
  if (IsOfEarlierFlow(state, news)) return;
  if (news.undoes != 0) {
    TakeUndo(state, news);
  } else {
    TakeStep(state, news);
    TakeRules(state, news);
  }
}

void CountTries(const FlowState* before, FlowState& state) {
  for (FlowStep& step : state.steps) {
    step.undo_base = step.undo_attempts;
    if (before == nullptr) continue;
    for (const FlowStep& known : before->steps) {
      if (known.operation == step.operation) step.undo_base = known.undo_base;
    }
  }
}

void OpenFlows::Apply(const StepUpdate& news, MonoTime now) {
  const Digest key = FlowKeyOf(news.caller, news.flow);
  auto at = flows_.find(key);
  if (at == flows_.end()) {
    // A flow begins with a request on its way. Anything else is news of one that is over.
    if (news.undoes != 0 || undone_.contains(key) || !Begins(news)) return;
    FlowState state;
    // A repeat of what had no effect in a flow that is over begins another one.
    state.number = news.row;
    state.id = news.flow;
    state.caller = news.caller;
    state.policy_version = news.policy_version;
    state.phase = FlowPhase::kOpen;
    state.cause = FlowCause::kFirstStep;
    state.began_ms = state.changed_ms = news.wall_ms;
    at = Insert(key, std::move(state));
  }
  FlowState& state = at->second.state;
  if (IsOfEarlierFlow(state, news)) return;
  Count(state, -1);
  TakeNews(state, news);
  Count(state, 1);
  Touch(at->second, key, now);
}

void OpenFlows::Apply(FlowState state, MonoTime now) {
  const FlowState* const known = Find(state.number);
  CountTries(known != nullptr && known->phase == state.phase ? known : nullptr, state);
  const Digest key = FlowKeyOf(state.caller, state.id);
  if (state.phase == FlowPhase::kUndone) undone_[key] = state.number;
  if (IsFinal(state.phase)) {
    Erase(key);
    if (over_) over_(std::move(state));
  } else {
    Put(key, std::move(state), now);
  }
}

const FlowState* OpenFlows::Find(std::string_view caller, std::string_view flow) const {
  return Find(FlowKeyOf(caller, flow));
}

const FlowState* OpenFlows::Find(const Digest& key) const {
  const auto at = flows_.find(key);
  return at == flows_.end() ? nullptr : &at->second.state;
}

const FlowState* OpenFlows::Find(std::uint64_t number) const {
  const auto at = by_number_.find(number);
  return at == by_number_.end() ? nullptr : &flows_.at(at->second).state;
}

std::uint64_t OpenFlows::FencedBy(std::string_view caller, std::string_view flow) const {
  return FencedBy(FlowKeyOf(caller, flow));
}

std::uint64_t OpenFlows::FencedBy(const Digest& key) const {
  if (const auto at = flows_.find(key); at != flows_.end()) {
    return IsFenced(at->second.state.phase) ? at->second.state.number : 0;
  }
  const auto at = undone_.find(key);
  return at == undone_.end() ? 0 : at->second;
}

bool OpenFlows::HoldsRow(const FlowState& state) const {
  const FlowState* const held = Find(state.number);
  return held != nullptr && held->row == state.row;
}

bool OpenFlows::HoldsStep(std::string_view caller, std::string_view flow, std::uint64_t operation) {
  const auto at = flows_.find(FlowKeyOf(caller, flow));
  if (at == flows_.end()) return false;
  FlowState& state = at->second.state;
  const auto step = std::ranges::find_if(state.steps, [&](const FlowStep& known) {
    return known.operation == operation || (known.undo != 0 && known.undo == operation);
  });
  if (step == state.steps.end()) return false;
  if (!MayForget(state) || !IsFinal(step->phase)) return true;
  Count(state, -1);
  state.steps.erase(step);
  Count(state, 1);
  return false;
}

std::vector<FlowState> OpenFlows::List(std::uint64_t after, std::size_t limit) const {
  std::vector<FlowState> found;
  for (auto at = by_number_.upper_bound(after); at != by_number_.end() && found.size() < limit;
       ++at) {
    found.push_back(flows_.at(at->second).state);
  }
  return found;
}

void OpenFlows::CloseIdle(MonoTime before, std::size_t flows_max, std::size_t most) {
  while (most-- > 0 && !idle_.empty()) {
    const Idle& oldest = idle_.begin()->second;
    if (oldest.since > before && flows_.size() < flows_max) return;
    const Digest key = oldest.key;
    if (over_) {
      FlowState state = flows_.at(key).state;
      state.phase = FlowPhase::kCommitted;
      state.cause = FlowCause::kIdle;
      over_(std::move(state));
    }
    Erase(key);
  }
}

void OpenFlows::Unfence(const FlowState& state) {
  const auto at = undone_.find(FlowKeyOf(state.caller, state.id));
  if (at != undone_.end() && at->second == state.number) undone_.erase(at);
}

OpenFlows::Flows::iterator OpenFlows::Insert(const Digest& key, FlowState state) {
  undone_.erase(key);
  const auto at = flows_.try_emplace(key).first;
  at->second.state = std::move(state);
  by_number_.insert_or_assign(by_number_.end(), at->second.state.number, key);
  Count(at->second.state, 1);
  return at;
}

void OpenFlows::Put(const Digest& key, FlowState state, MonoTime now) {
  Erase(key);
  Touch(Insert(key, std::move(state))->second, key, now);
}

void OpenFlows::Erase(const Digest& key) {
  const auto at = flows_.find(key);
  if (at == flows_.end()) return;
  Count(at->second.state, -1);
  if (at->second.touched != 0) idle_.erase(at->second.touched);
  by_number_.erase(at->second.state.number);
  flows_.erase(at);
}

void OpenFlows::Count(const FlowState& state, int by) {
  counts_[static_cast<std::size_t>(state.phase)] += static_cast<std::size_t>(by);
  if (IsStopped(state)) {
    stopped_ += static_cast<std::size_t>(by);
  } else if (state.phase == FlowPhase::kNeedsHuman) {
    if (by > 0) {
      parked_.insert(state.changed_ms);
    } else if (const auto at = parked_.find(state.changed_ms); at != parked_.end()) {
      parked_.erase(at);
    }
  }
  const auto steps = std::count_if(state.steps.begin(), state.steps.end(),
                                   [](const FlowStep& s) { return s.has_undo && NeedsUndo(s); });
  undoable_ += static_cast<std::size_t>(by * steps);
}

// With every step of every flow: its place moves on without a visit of the heap.
void OpenFlows::Touch(Entry& entry, const Digest& key, MonoTime now) {
  const std::uint64_t last = std::exchange(entry.touched, 0);
  if (!MayIdle(entry.state)) {
    idle_.erase(last);
    return;
  }
  entry.touched = ++ticks_;
  if (last == 0) {
    idle_.emplace_hint(idle_.end(), entry.touched, Idle{key, now});
    return;
  }
  auto place = idle_.extract(last);
  place.key() = entry.touched;
  place.mapped().since = now;
  idle_.insert(idle_.end(), std::move(place));
}

void AppendFlow(std::string& out, const FlowState& state) {
  ByteWriter writer(out);
  writer.Int(state.number);
  for (const std::string* text :
       {&state.id, &state.caller, &state.name, &state.policy_version, &state.reason}) {
    writer.Text(*text);
  }
  writer.Int(static_cast<std::uint8_t>(state.has_deadline));
  writer.Int(state.phase);
  writer.Int(state.cause);
  writer.Int(state.began_ms);
  writer.Int(state.changed_ms);
  writer.Int(static_cast<std::uint32_t>(state.steps.size()));
  for (const FlowStep& step : state.steps) {
    writer.Int(step.operation);
    writer.Int(step.phase);
    writer.Int(step.success);
    writer.Int(static_cast<std::uint8_t>(step.has_undo));
    writer.Int(step.end);
    writer.Int(step.undo);
    writer.Int(step.undo_phase);
    writer.Int(step.undo_attempts);
  }
  writer.Int(static_cast<std::uint32_t>(state.other_versions.size()));
  for (const std::string& version : state.other_versions) writer.Text(version);
}

bool ReadFlow(ByteReader& reader, FlowState& state) {
  state = FlowState();
  state.number = reader.Int<std::uint64_t>();
  for (std::string* text :
       {&state.id, &state.caller, &state.name, &state.policy_version, &state.reason}) {
    *text = reader.Text();
  }
  state.has_deadline = reader.Int<std::uint8_t>() != 0;
  state.phase = reader.Int<FlowPhase>();
  state.cause = reader.Int<FlowCause>();
  state.began_ms = reader.Int<std::int64_t>();
  state.changed_ms = reader.Int<std::int64_t>();
  const auto steps = reader.Int<std::uint32_t>();
  for (std::uint32_t i = 0; i < steps && reader.ok(); ++i) {
    FlowStep step;
    step.operation = reader.Int<std::uint64_t>();
    step.phase = reader.Int<Phase>();
    step.success = reader.Int<std::uint64_t>();
    step.has_undo = reader.Int<std::uint8_t>() != 0;
    step.end = reader.Int<StepEnd>();
    step.undo = reader.Int<std::uint64_t>();
    step.undo_phase = reader.Int<Phase>();
    step.undo_attempts = reader.Int<std::uint16_t>();
    if (static_cast<int>(step.phase) >= kPhaseCount || step.end > StepEnd::kNotNeeded ||
        static_cast<int>(step.undo_phase) >= kPhaseCount) {
      return false;
    }
    state.steps.push_back(step);
  }
  const auto versions = reader.Int<std::uint32_t>();
  for (std::uint32_t i = 0; i < versions && reader.ok(); ++i) {
    state.other_versions.emplace_back(reader.Text());
  }
  return reader.ok() && static_cast<int>(state.phase) < kFlowPhaseCount &&
         static_cast<int>(state.cause) < kFlowCauseCount;
}

std::string OpenFlows::Encode() const {
  std::string bytes;
  ByteWriter writer(bytes);
  writer.Int(static_cast<std::uint64_t>(undone_.size()));
  for (const auto& [key, number] : undone_) {
    writer.Raw(AsView(key));
    writer.Int(number);
  }
  writer.Int(static_cast<std::uint64_t>(flows_.size()));
  for (const auto& [number, key] : by_number_) {
    const FlowState& state = flows_.at(key).state;
    writer.Int(state.row);
    AppendFlow(bytes, state);
    for (const FlowStep& step : state.steps) writer.Int(step.undo_base);
  }
  return bytes;
}

bool OpenFlows::Decode(std::string_view bytes, MonoTime now) {
  ByteReader reader(bytes);
  const auto undone = reader.Int<std::uint64_t>();
  for (std::uint64_t i = 0; i < undone && reader.ok(); ++i) {
    Digest key{};
    const std::string_view raw = reader.Raw(key.size());
    if (raw.size() == key.size()) std::memcpy(key.data(), raw.data(), key.size());
    undone_[key] = reader.Int<std::uint64_t>();
  }
  const auto flows = reader.Int<std::uint64_t>();
  for (std::uint64_t i = 0; i < flows && reader.ok(); ++i) {
    FlowState state;
    const auto row = reader.Int<std::uint64_t>();
    if (!ReadFlow(reader, state) || IsFinal(state.phase)) return false;
    state.row = row;
    for (FlowStep& step : state.steps) step.undo_base = reader.Int<std::uint16_t>();
    const Digest key = FlowKeyOf(state.caller, state.id);
    Put(key, std::move(state), now);
  }
  return reader.at_end();
}

}  // namespace recourse
