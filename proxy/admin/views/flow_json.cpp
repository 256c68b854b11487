#include "proxy/admin/views/flow_json.h"

#include <algorithm>
#include <functional>
#include <span>

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/views/member_kinds.h"
#include "proxy/admin/views/message_view.h"

namespace recourse {
namespace {

constexpr std::string_view kNotShown = "(hidden)";

namespace flow_members {

using member::Bool, member::Id, member::Named, member::Number, member::Text, member::TextIfAny,
    member::Time;

struct UndoMessage {
  const std::string& base_url;
  const HttpRequest& request;
};
constexpr JsonMember<UndoMessage> kUndoRequest[] = {
    Text<[](const UndoMessage& of) -> std::string_view { return of.request.method; }>("method"),
    Text<[](const UndoMessage& of) {
      return of.base_url + ShownTarget(of.request.target, kNotShown);
    }>("url"),
    member::Fields<[](const UndoMessage& of) -> const Headers& { return of.request.headers; },
                   [](const UndoMessage&) { return kNotShown; }>(),
    member::Body<[](const UndoMessage& of) -> std::string_view { return of.request.body; }>(),
    member::CodedBody<[](const UndoMessage& of) -> std::string_view { return of.request.body; }>(),
};
template <std::optional<HttpRequest> StepView::* kRequest>
constexpr auto UndoRequest(std::string_view name) {
  return member::Own({name, "UndoRequest", "", /*may_lack=*/true},
                     [](JsonObject& json, std::string_view as, const StepView& view) {
                       const std::optional<HttpRequest>& request = view.*kRequest;
                       if (!request) return;
                       JsonObject message = json.Object(as);
                       WriteMembers(message, kUndoRequest, {view.base_url, *request});
                     });
}

template <std::optional<HttpResponse> StepView::* kSaid>
constexpr auto Said(std::string_view name, std::string_view text) {
  return member::Own({name, "KeptMessage", text, /*may_lack=*/true},
                     [](JsonObject& json, std::string_view as, const StepView& view) {
                       if (view.*kSaid) WriteResponse(json, as, *(view.*kSaid), kNotShown);
                     });
}

constexpr JsonMember<PlaceDrift> kDrift[] = {
    Text<&PlaceDrift::place>("place", "A JSON pointer"),
    Text<&PlaceDrift::before>("before", "Before the step").MayLack(),
    Text<&PlaceDrift::ours>("ours", "What it left").MayLack(),
    Text<&PlaceDrift::now>("now").MayLack(),
};

// Of the step's event; empty: retention removed it.
template <std::string Event::* kText>
constexpr auto kOfEvent = [](const StepView& view) {
  return view.event ? std::string_view((*view.event).*kText) : std::string_view();
};
constexpr auto kOperation = [](const StepView& view) { return view.step.operation; };

constexpr JsonMember<StepView> kStep[] = {
    Id<kOperation>("step"),
    Text<kOfEvent<&Event::tool>>("tool"),
    Text<kOfEvent<&Event::method>>("method"),
    Text<kOfEvent<&Event::path>>("path"),
    Text<kOfEvent<&Event::backend>>("backend"),
    TextIfAny<&StepView::undo_class>("class", "", "UndoClass"),
    Named<[](const StepView& view) { return view.step.phase; }>("phase", "Phase"),
    Text<kOfEvent<&Event::external_ref>>("external_ref"),
    Bool<[](const StepView& view) { return view.step.end == StepEnd::kNotNeeded; }>(
        "not_needed", "Somebody said that its effect may stay"),
    Id<[](const StepView& view) { return view.step.undo; }>("undo_operation", "0: none yet"),
    Text<[](const StepView& view) {
      return view.step.undo == 0 ? std::string_view() : NameOf(view.step.undo_phase);
    }>("undo_phase"),
    Number<[](const StepView& view) { return view.step.undo_attempts; }>("undo_attempts"),
    Named<&StepView::does>("undo", "StepUndo"),
    Text<&StepView::why>("why"),
    Said<&StepView::said>("said",
                          "With what its backend refused it; the first 1024 bytes of the body"),
    Said<&StepView::undo_said>("undo_said", "The same of its last undo request"),
    member::Objects<[](const StepView& view) {
      return view.drift.empty() ? std::nullopt : std::optional(std::span(view.drift));
    },
                    kDrift>("changed_since", "PlaceDrift",
                            "What somebody has changed since, for which its undo was held back")
        .MayLack(),
    UndoRequest<&StepView::undo_sent>("undo_sent"),
    UndoRequest<&StepView::request>("undo_request"),
};

constexpr JsonMember<StepView> kPlanned[] = {
    Id<kOperation>("step"),
    Text<kOfEvent<&Event::tool>>("tool"),
    Named<&StepView::does>("undo", "StepUndo"),
    Text<&StepView::why>("why"),
    Bool<&StepView::is_reached>("reached", "False: an earlier one stops the undoing"),
    UndoRequest<&StepView::request>("undo_request"),
};

constexpr JsonMember<FlowState> kFlow[] = {
    Id<&FlowState::number>("number", "That of its first step"),
    Text<&FlowState::id>("flow"),
    Text<&FlowState::name>("name"),
    Text<&FlowState::caller>("caller"),
    Named<&FlowState::phase>("phase", "FlowPhase"),
    Named<&FlowState::cause>("cause", "FlowCause"),
    Bool<IsStopped>("stopped", "In NEEDS_HUMAN by its deadline alone, with nothing unknown"),
    Text<&FlowState::reason>("reason"),
    Time<&FlowState::began_ms>("began"),
    Time<&FlowState::changed_ms>("changed"),
    Bool<&FlowState::has_deadline>("has_deadline"),
    Text<&FlowState::policy_version>("policy_version"),
    Number<[](const FlowState& state) { return state.steps.size(); }>("step_count"),
    Number<[](const FlowState& state) {
      return std::ranges::count(state.steps, Phase::kCompensated, &FlowStep::phase);
    }>("undone_count"),
};
constexpr JsonMember<FlowView> kSteps[] = {
    member::Objects<&FlowView::steps, kStep>("steps", "FlowStep")};
constexpr JsonMember<FlowView> kPlan[] = {
    Text<&FlowView::refused>("refused", "Why it cannot be undone; empty: it can"),
    member::Objects<[](const FlowView& view) {
      std::vector<std::reference_wrapper<const StepView>> plan;
      for (const std::size_t index : view.order) plan.emplace_back(view.steps[index]);
      return plan;
    },
                    kPlanned>("plan", "PlannedStep", "In the order of the undoing"),
};

}  // namespace flow_members
}  // namespace

// A flow that only took steps has no row of its own.
std::uint64_t LastRowOf(const FlowState& state) {
  return state.row != 0 ? state.row : state.number;
}

void AppendFlowLine(std::string& out, const FlowState& state, PodNames* pods) {
  JsonObject json(out);
  WriteMembers(json, flow_members::kFlow, state);
  if (pods != nullptr) pods->Write(json, LastRowOf(state));
}

std::string FlowJson(const FlowView& view, PodNames& pods) {
  return ObjectText([&](JsonObject& json) {
    WriteMembers(json, flow_members::kFlow, view.state);
    pods.Write(json, LastRowOf(view.state));
    WriteMembers(json, flow_members::kSteps, view);
  });
}

std::string PreviewJson(const FlowView& view) {
  return ObjectText([&](JsonObject& json) {
    WriteMembers(json, flow_members::kFlow, view.state);
    WriteMembers(json, flow_members::kPlan, view);
  });
}

std::vector<JsonShape> FlowShapes() {
  return {
      {"FlowFacts", "", DocsOf(flow_members::kFlow, kPodMembers), "", /*is_base=*/true},
      {"FlowLine", "", {}, "FlowFacts"},
      {"Flow", "", DocsOf(flow_members::kSteps), "FlowFacts"},
      {"FlowPreview", "", DocsOf(flow_members::kPlan), "FlowFacts"},
      {"FlowStep", "", DocsOf(flow_members::kStep)},
      {"PlannedStep", "", DocsOf(flow_members::kPlanned)},
      {"PlaceDrift", "Values as JSON text; one that is missing is not there",
       DocsOf(flow_members::kDrift)},
      {"UndoRequest", "", DocsOf(flow_members::kUndoRequest)},
  };
}

}  // namespace recourse
