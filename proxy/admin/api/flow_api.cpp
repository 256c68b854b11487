#include "proxy/admin/api/flow_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/access/problem.h"
#include "proxy/admin/api/flow_query.h"
#include "proxy/admin/api/order_word.h"
#include "proxy/admin/api/query_params.h"
#include "proxy/admin/views/flow_json.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::array<std::pair<std::string_view, FlowAction::Kind>, 4> kOrders = {{
    {admin_paths::kFlowClose, FlowAction::Kind::kClose},
    {admin_paths::kFlowCancel, FlowAction::Kind::kCancel},
    {admin_paths::kFlowUndo, FlowAction::Kind::kUndo},
    {admin_paths::kFlowRetry, FlowAction::Kind::kRetry},
}};
constexpr std::array<std::pair<std::string_view, FlowAction::Kind>, 4> kResolutions = {{
    {"done", FlowAction::Kind::kDone},
    {"not-needed", FlowAction::Kind::kNotNeeded},
    {"happened", FlowAction::Kind::kHappened},
    {"absent", FlowAction::Kind::kAbsent},
}};

template <class Table>
std::optional<FlowAction::Kind> KindOf(const Table& table, std::string_view name) {
  const auto at =
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.first == name; });
  return at == table.end() ? std::nullopt : std::optional<FlowAction::Kind>(at->second);
}

HttpResponse NotWhileObserving() {
  return Problem(409, "Not done", "observe mode sends nothing and leaves flows as they are");
}

HttpResponse NoReason() {
  return Problem(400, "No reason", "say why, for the log: {\"reason\": \"...\"}");
}

// Of an order that says nothing but why; `otherwise`: if it does not.
std::expected<OrderWord, HttpResponse> ReadReason(const HttpRequest& request, const Operator& who,
                                                  std::string_view otherwise = {}) {
  auto word = ReadOrderWord(request.body, who);
  if (!word) return std::unexpected(Problem(400, "Bad body", word.error()));
  if (word->step != 0 || !word->as.empty() || !word->external_ref.empty()) {
    return std::unexpected(
        Problem(400, "Bad body", "'step', 'as' and 'external_ref' are for resolve"));
  }
  if (word->reason.empty()) word->reason = otherwise;
  if (word->reason.empty()) return std::unexpected(NoReason());
  return std::move(*word);
}

namespace flow_page_members {

struct Shown {
  const std::vector<FlowState>& flows;
  PodNames& pods;
  bool has_next;
  std::size_t left;
};
constexpr auto kFlows =
    member::Own({"flows", "FlowLine", "", false, /*is_list=*/true},
                [](JsonObject& json, std::string_view name, const Shown& of) {
                  json.Each(name, of.flows, [&](std::string& out, const FlowState& state) {
                    AppendFlowLine(out, state, &of.pods);
                  });
                });
constexpr JsonMember<Shown> kPage[] = {
    kFlows,
    member::Raw<[](const Shown& of) {
      return of.has_next ? RowIdJson(of.flows.back().number) : "null";
    }>("next", kCursorSchema, kNextText),
};
constexpr JsonMember<Shown> kClosed[] = {
    kFlows,
    member::Number<&Shown::left>("left", "So many more there are: ask once more"),
};

}  // namespace flow_page_members

}  // namespace

HttpResponse FlowApi::Handle(const AccessControl::Visit& visit, const HttpRequest& request) {
  const std::string_view at = visit.endpoint->path;
  if (at == admin_paths::kFlows) return List(visit.query);
  if (at == admin_paths::kCloseStopped) return CloseStopped(visit.query, request, visit.who);
  const auto kind = KindOf(kOrders, at);
  const bool is_preview = kind == FlowAction::Kind::kUndo && visit.query == "preview=true";
  if (!visit.query.empty() && !is_preview) {
    return Problem(400, "Unknown parameter", "only undo takes one: ?preview=true");
  }
  std::string id;
  if (!PercentDecode(admin_paths::PlaceIn(at, visit.path), id) || id.empty()) {
    return Problem(400, "Bad flow id", "name the flow by its number or its flow id");
  }
  auto state = Find(id);
  if (!state) return state.error();
  if (at == admin_paths::kFlow) return Show(*state, /*with_plan=*/false);
  if (at == admin_paths::kFlowPreview || is_preview) return Show(*state, /*with_plan=*/true);
  if (parts_.is_observing()) return NotWhileObserving();
  if (kind) return Act(*kind, std::move(*state), request, visit.who);
  return Resolve(std::move(*state), request, visit.who);
}

HttpResponse FlowApi::List(std::string_view query) {
  const auto selection = ReadFlowSelection(query);
  if (!selection) return Problem(400, "Bad parameter", selection.error());
  if (!selection->pod.empty() && !pods_.is_shared()) return NoPods();
  std::vector<FlowState> flows;
  if (selection->all) {
    auto newest = parts_.ledger.NewestFlows(limits::kFlowsMax);
    if (!newest) return NoLedger(newest.error().detail());
    flows = std::move(*newest);
  } else {
    auto open = NotOver();
    if (!open) return open.error();
    flows = std::move(*open);
  }
  std::erase_if(flows, [&, is_of = pods_.AreOf(selection->pod)](const FlowState& state) {
    return !IsSelected(*selection, state) || (!selection->pod.empty() && !is_of(LastRowOf(state)));
  });
  // Of all flows the newest are asked for, of those not over the oldest.
  const std::size_t most = static_cast<std::size_t>(selection->limit);
  const std::size_t over = flows.size() > most ? flows.size() - most : 0;
  if (selection->all) {
    flows.erase(flows.begin(), flows.begin() + static_cast<std::ptrdiff_t>(over));
  }
  flows.resize(std::min(flows.size(), most));
  return JsonAnswer(ObjectText([&](JsonObject& json) {
    const bool has_next = over > 0 && !selection->all;
    WriteMembers(json, flow_page_members::kPage, {flows, pods_, has_next, 0});
  }));
}

HttpResponse FlowApi::CloseStopped(std::string_view query, const HttpRequest& request,
                                   const Operator& who) {
  auto selection = ReadFlowSelection(query);
  if (!selection) return Problem(400, "Bad parameter", selection.error());
  selection->stopped = true;
  const auto word = ReadReason(request, who);
  if (!word) return word.error();
  if (parts_.is_observing()) return NotWhileObserving();
  auto flows = NotOver();
  if (!flows) return flows.error();
  std::erase_if(*flows, [&](const FlowState& state) { return !IsSelected(*selection, state); });
  const std::size_t most = static_cast<std::size_t>(selection->limit);
  const std::size_t left = flows->size() > most ? flows->size() - most : 0;
  flows->resize(flows->size() - left);
  std::vector<FlowState> closed;
  for (const FlowState& state : *flows) {
    auto moved = parts_.flows.Act(
        {.kind = FlowAction::Kind::kClose, .number = state.number, .reason = ReasonOf(*word)});
    // Else somebody was first, or the next request tells what is wrong.
    if (moved) closed.push_back(std::move(*moved));
  }
  return JsonAnswer(ObjectText([&](JsonObject& json) {
    WriteMembers(json, flow_page_members::kClosed, {closed, pods_, false, left});
  }));
}

std::expected<std::vector<FlowState>, HttpResponse> FlowApi::NotOver() {
  std::vector<FlowState> flows;
  for (std::uint64_t after = 0;;) {
    auto page = parts_.flows.List(after, limits::kAdminPageMax);
    if (!page) return std::unexpected(NoLedger(page.error()));
    if (page->empty()) return flows;
    after = page->back().number;
    std::move(page->begin(), page->end(), std::back_inserter(flows));
  }
}

std::expected<FlowState, HttpResponse> FlowApi::Find(const std::string& id) {
  std::uint64_t number = 0;
  if (ParseId(id, number) && number > 0) {
    auto open = parts_.flows.List(number - 1, 1);
    if (!open) return std::unexpected(NoLedger(open.error()));
    if (!open->empty() && open->front().number == number) return std::move(open->front());
    auto found = parts_.ledger.FindFlow(number);
    if (!found) return std::unexpected(NoLedger(found.error().detail()));
    if (*found) return std::move(**found);
  }
  const auto named = [&](const FlowState& state) { return state.id != id; };
  auto flows = NotOver();
  if (!flows) return std::unexpected(flows.error());
  std::erase_if(*flows, named);
  if (flows->empty()) {
    auto newest = parts_.ledger.NewestFlows(limits::kFlowsMax);
    if (!newest) return std::unexpected(NoLedger(newest.error().detail()));
    *flows = std::move(*newest);
    std::erase_if(*flows, named);
  }
  if (flows->empty()) {
    return std::unexpected(
        Problem(404, "No such flow",
                "no flow has the number or the flow id '" + id +
                    "'; `recourse flows list --all` and `recourse events list` tell of those "
                    "that are remembered"));
  }
  if (flows->size() == 1) return std::move(flows->front());
  std::string numbers;
  for (const FlowState& state : *flows) {
    numbers += (numbers.empty() ? "" : ", ") + PrintRowId(state.number);
  }
  return std::unexpected(Problem(409, "Which flow",
                                 fmt::format("{} flows are called '{}'; name one by its number: {}",
                                             flows->size(), id, numbers)));
}

Result<FlowView> FlowApi::View(const FlowState& state) {
  return ViewFlow(
      parts_.ledger, [this](std::uint64_t operation) { return parts_.flows.LastOf(operation); },
      parts_.policy, state, ToUnixMillis(parts_.clock.WallNow()));
}

HttpResponse FlowApi::Show(const FlowState& state, bool as_preview) {
  const auto view = View(state);
  if (!view) return NoLedger(view.error().detail());
  return JsonAnswer(as_preview ? PreviewJson(*view) : FlowJson(*view, pods_));
}

HttpResponse FlowApi::Act(FlowAction::Kind kind, FlowState state, const HttpRequest& request,
                          const Operator& who) {
  const bool is_retry = kind == FlowAction::Kind::kRetry;
  const auto word = ReadReason(request, who, is_retry ? "retried by an operator" : "");
  if (!word) return word.error();
  if (kind == FlowAction::Kind::kUndo) {
    const auto view = View(state);
    if (!view) return NoLedger(view.error().detail());
    if (!view->refused.empty()) return Problem(409, "Not undone", view->refused);
  }
  return Do({.kind = kind, .number = state.number, .reason = ReasonOf(*word)}, std::move(state));
}

HttpResponse FlowApi::Resolve(FlowState state, const HttpRequest& request, const Operator& who) {
  const auto word = ReadOrderWord(request.body, who);
  if (!word) return Problem(400, "Bad body", word.error());
  const auto kind = KindOf(kResolutions, word->as);
  if (!kind) {
    return Problem(400, "Bad body",
                   "'" + word->as +
                       "' is no value for as; accepted: done (it was undone by "
                       "hand), not-needed (its effect may stay), happened and absent "
                       "(of a step whose outcome is unknown)");
  }
  if (word->step == 0) {
    return Problem(400, "Bad body", "name the step: {\"step\": N}, as /flows/{id} shows it");
  }
  if (word->reason.empty()) return NoReason();
  if (!word->external_ref.empty() && *kind != FlowAction::Kind::kHappened) {
    return Problem(400, "Bad body", "'external_ref' is for what happened");
  }
  return Do({.kind = *kind,
             .number = state.number,
             .operation = word->step,
             .reason = ReasonOf(*word),
             .external_ref = word->external_ref},
            std::move(state));
}

HttpResponse FlowApi::Do(FlowAction action, FlowState state) {
  action.found = std::move(state);
  const auto moved = parts_.flows.Act(action);
  if (!moved) return Problem(409, "Not done", moved.error());
  return Show(*moved, false);
}

std::vector<JsonShape> FlowPageShapes() {
  return {{"FlowPage", "", DocsOf(flow_page_members::kPage)},
          {"ClosedFlows", "", DocsOf(flow_page_members::kClosed)}};
}

}  // namespace recourse
