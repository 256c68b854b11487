#include "proxy/admin/views/flow_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "filters/call/stored_call.h"
#include "filters/call/stored_response.h"
#include "filters/ledger/model/row_id.h"
#include "filters/saga/undo_plan.h"
#include "filters/saga/undo_sender.h"
#include "policy/undo/undo_choice.h"
#include "policy/undo/undo_class.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, 6> kDoesNames = {"nothing", "settle", "send",
                                                        "skip",    "stop",   "too_old"};

// "3 d", "2 h", "5 min", "7 s" or "20 ms".
std::string AboutTime(std::int64_t ms) {
  const std::int64_t seconds = ms / 1'000;
  if (seconds >= 2 * 86'400) return fmt::format("{} d", seconds / 86'400);
  if (seconds >= 2 * 3'600) return fmt::format("{} h", seconds / 3'600);
  if (seconds >= 2 * 60) return fmt::format("{} min", seconds / 60);
  return seconds > 0 ? fmt::format("{} s", seconds) : fmt::format("{} ms", ms);
}

Result<std::optional<Event>> EventOf(Ledger& ledger, const FlowStep& step) {
  auto event = ledger.Find(step.success != 0 ? step.success : step.operation);
  if (!event || *event) return event;
  // Retention moved the operation on: what is left of it is its last event.
  const auto page = ledger.List({.operation = step.operation});
  if (!page) return std::unexpected(page.error());
  if (page->events.empty()) return std::nullopt;
  return ledger.Find(page->events.back().id);
}

std::optional<HttpResponse> SaidIn(Event last) {
  if (!last.answer_kept) return std::nullopt;
  CutToSaid(last.answer);
  return std::move(last.answer);
}

std::optional<std::string> ValueIn(const Snapshot& state, std::size_t index) {
  if (state.is_gone || index >= state.places.size()) return std::nullopt;
  return state.places[index].second;
}

// The places that differ between what the step left and what its undo found.
std::vector<PlaceDrift> DriftOf(const std::optional<Event>& step, const Event& undo) {
  std::vector<PlaceDrift> drift;
  if (!step || !step->state || !undo.found) return drift;
  const StateKept& kept = *step->state;
  for (std::size_t i = 0; i < kept.before.places.size(); ++i) {
    PlaceDrift place{kept.before.places[i].first, ValueIn(kept.before, i), ValueIn(kept.ours, i),
                     ValueIn(*undo.found, i)};
    if (place.ours != place.now) drift.push_back(std::move(place));
  }
  return drift;
}

std::string ClassOfStep(const Event& event, const PolicyOfVersion& policy) {
  const auto rules = policy(event.policy_version);
  const Tool* const tool = rules ? rules->FindTool(event.tool) : nullptr;
  return tool == nullptr ? std::string() : std::string(UndoClassName(UndoClassOf(*tool)));
}

// Of a step that is undone: what was sent for that.
void ShowUndoSent(StepView& view, const PolicyOfVersion& policy) {
  if (!view.event || !view.event->undo) return;
  const auto rules = policy(view.event->policy_version);
  const Backend* const backend = rules ? FindBackend(*rules, view.event->backend) : nullptr;
  if (backend == nullptr) return;
  const UndoRule* const rule = UndoOf(rules->FindTool(view.event->tool), *view.event->undo);
  view.undo_sent = UndoPreview(*view.event, rule, *backend);
  view.base_url = backend->scheme + "://" + backend->authority;
}

std::string WhyTooOld(const Event& event, const UndoRule& rule, std::int64_t now_ms) {
  if (!rule.window || now_ms - event.wall_ms <= rule.window->count()) return {};
  return fmt::format("{} took effect {} ago, and its policy lets it be undone for {}", event.tool,
                     AboutTime(now_ms - event.wall_ms), AboutTime(rule.window->count()));
}

// Fills in what an undo does with a step whose effect stands. True: it stops there.
bool Judge(StepView& view, const PolicyOfVersion& policy, const FlowState& state,
           std::int64_t now_ms) {
  view.does = StepDoes::kStop;
  if (!view.event) {
    view.why = "its events are no longer kept";
    return true;
  }
  const Event& event = *view.event;
  const auto rules = policy(event.policy_version);
  const Tool* const tool = rules ? rules->FindTool(event.tool) : nullptr;
  const Flow* const flow = rules ? rules->FindFlow(state.name) : nullptr;
  const bool goes_on = flow != nullptr && flow->continue_on_stuck;
  UndoDecision decision = DecideUndo(event, tool, flow);
  view.why = std::move(decision.reason);
  if (decision.kind == UndoDecision::Kind::kSkip) {
    view.does = StepDoes::kSkip;
    return false;
  }
  if (decision.kind == UndoDecision::Kind::kPark) return !goes_on;
  const auto backend = std::find_if(rules->backends.begin(), rules->backends.end(),
                                    [&](const Backend& one) { return one.name == event.backend; });
  if (backend == rules->backends.end()) {
    view.why = "no policy says where backend " + event.backend + " is";
    return !goes_on;
  }
  const UndoRule* const rule = UndoOf(tool, *event.undo);
  if (rule != nullptr && state.phase == FlowPhase::kCommitted) {
    view.why = WhyTooOld(event, *rule, now_ms);
    if (!view.why.empty()) {
      view.does = StepDoes::kTooOld;
      return true;
    }
  }
  view.does = StepDoes::kSend;
  view.request = UndoPreview(event, rule, *backend);
  view.base_url = backend->scheme + "://" + backend->authority;
  return false;
}

std::string WhyRefused(const FlowView& view) {
  for (const StepView& step : view.steps) {
    if (step.does == StepDoes::kTooOld) {
      return fmt::format("step {} is too old: {}", PrintRowId(step.step.operation), step.why);
    }
  }
  return {};
}

}  // namespace

std::string_view NameOf(StepDoes does) { return kDoesNames.at(static_cast<std::size_t>(does)); }

Result<FlowView> ViewFlow(Ledger& ledger, const LastEventOf& last_of, const PolicyOfVersion& policy,
                          FlowState state, std::int64_t now_ms) {
  FlowView view;
  for (const FlowStep& step : state.steps) {
    auto event = EventOf(ledger, step);
    if (!event) return std::unexpected(event.error());
    StepView& added = view.steps.emplace_back();
    added.step = step;
    added.event = std::move(*event);
    if (added.event) added.undo_class = ClassOfStep(*added.event, policy);
    if (step.phase == Phase::kRejected) {
      if (auto last = last_of(step.operation)) added.said = SaidIn(std::move(*last));
    }
    if (step.undo != 0) {
      const bool is_undone = step.undo_phase == Phase::kSucceeded;
      if (auto last = last_of(step.undo)) {
        if (!is_undone) added.drift = DriftOf(added.event, *last);
        added.undo_said = SaidIn(std::move(*last));
      }
      if (is_undone) ShowUndoSent(added, policy);
    }
    if (IsOpen(step.phase)) {
      added.does = StepDoes::kSettle;
      added.why = "nobody knows yet whether it took effect";
      view.order.push_back(view.steps.size() - 1);
    }
  }
  std::vector<std::uint64_t> seen;
  for (const StepView& step : view.steps) {
    if (step.does == StepDoes::kSettle) seen.push_back(step.step.operation);
  }
  bool is_stopped = false;
  while (const FlowStep* const next = NextToUndo(state, seen)) {
    const auto index = static_cast<std::size_t>(next - state.steps.data());
    StepView& step = view.steps[index];
    step.is_reached = !is_stopped;
    is_stopped = Judge(step, policy, state, now_ms) || is_stopped;
    view.order.push_back(index);
    seen.push_back(next->operation);
  }
  view.state = std::move(state);
  view.refused = WhyRefused(view);
  return view;
}

}  // namespace recourse
