#include "proxy/drill/drill_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

// What one flow comes to: its tools in the order in which an agent calls them.
struct Steps {
  std::string name;
  const Flow* flow = nullptr;  // null: none was declared
  std::vector<const Tool*> tools;
  const Tool* ends_with = nullptr;
  const Tool* canceled_by = nullptr;
};

class Planner {
 public:
  Planner(const Policy& policy, DrillPlan& plan) : policy_(policy), plan_(plan) {}

  void Add(Steps steps);

 private:
  std::vector<ScriptedCall> ScriptOf(const std::vector<const Tool*>& tools) const;
  void AddOtherUndos(const Steps& steps, DrillFlow& out);
  void DropImpossible(Steps& steps);
  void AddSuccess(const Steps& steps, DrillFlow& out) const;
  void AddFailure(const Steps& steps, DrillFlow& out) const;
  void AddLoss(const Steps& steps, DrillFlow& out) const;
  void AddDeath(const Steps& steps, DrillFlow& out);

  const Policy& policy_;
  DrillPlan& plan_;
};

std::vector<ScriptedCall> Planner::ScriptOf(const std::vector<const Tool*>& tools) const {
  std::vector<ScriptedCall> script;
  for (const Tool* tool : tools) {
    if (auto call = ScriptCall(policy_, *tool, script.size() + 1))
      script.push_back(std::move(*call));
  }
  return script;
}

void Planner::DropImpossible(Steps& steps) {
  const auto is_impossible = [&](const Tool* tool) {
    const auto call = ScriptCall(policy_, *tool, 1);
    if (!call) plan_.skipped.push_back({tool->name, call.error()});
    return !call;
  };
  std::erase_if(steps.tools, is_impossible);
  if (steps.ends_with != nullptr && is_impossible(steps.ends_with)) steps.ends_with = nullptr;
  if (steps.canceled_by != nullptr && is_impossible(steps.canceled_by)) {
    steps.canceled_by = nullptr;
  }
}

std::vector<const Tool*> With(std::vector<const Tool*> tools, const Tool* last) {
  if (last != nullptr) tools.push_back(last);
  return tools;
}

void Planner::AddSuccess(const Steps& steps, DrillFlow& out) const {
  out.scenarios.push_back({.kind = Scenario::Kind::kSucceeds,
                           .what = "every step succeeds",
                           .script = ScriptOf(With(steps.tools, steps.ends_with)),
                           .mishaps = {}});
}

void Planner::AddFailure(const Steps& steps, DrillFlow& out) const {
  const auto all = With(steps.tools, steps.ends_with);
  const auto breaking = std::find_if(all.rbegin(), all.rend(), [](const Tool* tool) {
    return tool->breaks_flow != BreaksFlow::kNever;
  });
  if (breaking != all.rend()) {
    const std::vector<const Tool*> until(all.begin(), breaking.base());
    out.scenarios.push_back({.kind = Scenario::Kind::kFails,
                             .what = until.back()->name + " is refused, which breaks the flow",
                             .script = ScriptOf(until),
                             .mishaps = {.refused = until.size() - 1, .lost_answer = {}},
                             .must_break = true});
  }
  if (steps.tools.empty()) return;
  Scenario canceled{.kind = Scenario::Kind::kCanceled,
                    .what = "an operator cancels it",
                    .script = ScriptOf(With(steps.tools, steps.canceled_by)),
                    .mishaps = {},
                    .operator_cancels = steps.canceled_by == nullptr,
                    .must_break = true};
  if (steps.canceled_by != nullptr) canceled.what = steps.canceled_by->name + " cancels it";
  out.scenarios.push_back(std::move(canceled));
}

void Planner::AddLoss(const Steps& steps, DrillFlow& out) const {
  const auto all = With(steps.tools, steps.ends_with);
  out.scenarios.push_back({.kind = Scenario::Kind::kLost,
                           .what = "the answer of " + all.back()->name + " is lost",
                           .script = ScriptOf(all),
                           .mishaps = {.refused = {}, .lost_answer = all.size() - 1}});
}

void Planner::AddDeath(const Steps& steps, DrillFlow& out) {
  if (steps.flow == nullptr || !steps.flow->deadline) {
    plan_.skipped.push_back({steps.name + ": the agent dies half-way",
                             "the flow has no deadline, so nothing ends it before it is complete "
                             "after an hour of silence"});
    return;
  }
  const auto all = With(steps.tools, steps.ends_with);
  const std::size_t half = std::max<std::size_t>(1, all.size() / 2);
  out.scenarios.push_back(
      {.kind = Scenario::Kind::kDies,
       .what = fmt::format("the agent dies after {} of {} steps, and the deadline passes", half,
                           all.size()),
       .script = ScriptOf({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(half)}),
       .mishaps = {},
       .waits_for_deadline = true});
}

// Of each tool that has several undo requests the second one, then the third, ...
void Planner::AddOtherUndos(const Steps& steps, DrillFlow& out) {
  std::vector<const Tool*> tools = steps.tools;
  for (std::size_t undo = 1;; ++undo) {
    std::erase_if(tools, [&](const Tool* tool) { return UndosOf(*tool).size() <= undo; });
    if (tools.empty()) return;
    std::vector<ScriptedCall> script;
    for (const Tool* const tool : tools) {
      if (auto call = ScriptCall(policy_, *tool, script.size() + 1, undo)) {
        script.push_back(std::move(*call));
      } else {
        plan_.skipped.push_back(
            {fmt::format("{}: undo request {}", tool->name, undo + 1), call.error()});
      }
    }
    if (script.empty()) continue;
    out.scenarios.push_back(
        {.kind = Scenario::Kind::kCanceled,
         .what = fmt::format("an operator cancels it, and undo request {} is the one", undo + 1),
         .script = std::move(script),
         .mishaps = {},
         .operator_cancels = true,
         .must_break = true});
  }
}

void Planner::Add(Steps steps) {
  DropImpossible(steps);
  if (steps.tools.empty() && steps.ends_with == nullptr) {
    plan_.skipped.push_back({steps.name, "none of its tools can be drilled"});
    return;
  }
  DrillFlow out{
      .name = steps.name, .is_declared = steps.flow != nullptr, .tools = {}, .scenarios = {}};
  for (const Tool* tool : With(steps.tools, steps.ends_with)) out.tools.push_back(tool->name);
  AddSuccess(steps, out);
  AddFailure(steps, out);
  AddLoss(steps, out);
  AddDeath(steps, out);
  AddOtherUndos(steps, out);
  plan_.flows.push_back(std::move(out));
}

void AddPlaceholder(RequestTemplate& request, const SecretHeader& secret) {
  RequestTemplate::Piece piece;
  piece.literal = secret.prefix + "drill-placeholder";
  request.headers.emplace_back(secret.name, RequestTemplate::Text{std::move(piece)});
}

}  // namespace

DrillPlan PlanDrill(const Policy& policy, const std::string& flow) {
  DrillPlan plan;
  Planner planner(policy, plan);
  std::vector<const Tool*> alone;
  for (const Tool& tool : policy.tools) {
    if (tool.effect == Effect::kWrite && policy.FlowOf(tool) == nullptr) alone.push_back(&tool);
  }
  for (const Flow& declared : policy.flows) {
    if (!flow.empty() && declared.name != flow) continue;
    Steps steps{.name = declared.name, .flow = &declared, .tools = {}};
    if (declared.ends_with) steps.ends_with = &policy.tools[*declared.ends_with];
    if (declared.canceled_by) steps.canceled_by = &policy.tools[*declared.canceled_by];
    for (const std::size_t index : declared.tools) {
      const Tool* const tool = &policy.tools[index];
      if (tool != steps.ends_with && tool != steps.canceled_by) steps.tools.push_back(tool);
    }
    planner.Add(std::move(steps));
  }
  for (const Backend& backend : policy.backends) {
    // Tools that no flow names: what an agent does with them in one trace is a flow all the same.
    Steps steps{.name = backend.name + " (no flow declared)", .tools = {}};
    for (const Tool* tool : alone) {
      if (&policy.backends[tool->backend] == &backend) steps.tools.push_back(tool);
    }
    if (steps.tools.empty() || (!flow.empty() && flow != backend.name)) continue;
    for (std::size_t first = 0; first < steps.tools.size(); first += limits::kDrillStepsMax) {
      const std::size_t end = std::min(steps.tools.size(), first + limits::kDrillStepsMax);
      Steps part = steps;
      part.tools.assign(steps.tools.begin() + static_cast<std::ptrdiff_t>(first),
                        steps.tools.begin() + static_cast<std::ptrdiff_t>(end));
      if (first > 0) part.name += fmt::format(", tools from {}", first + 1);
      planner.Add(std::move(part));
    }
  }
  return plan;
}

namespace {

void AdaptUndo(UndoRule& undo) {
  for (const SecretHeader& secret : undo.secrets) AddPlaceholder(undo.request, secret);
  undo.secrets.clear();
}

}  // namespace

void AdaptPolicy(Policy& policy, std::uint16_t port, Millis deadline) {
  policy.mode = Mode::kEnforce;
  policy.quotas = Quotas();
  policy.ledger.retention = limits::kRetention;
  policy.ledger.tombstones = limits::kTombstones;
  policy.flow_rules.webhook.reset();
  policy.flow_rules.undos_per_second = limits::kUndosPerSecondCap;
  for (Backend& backend : policy.backends) {
    backend.scheme = "http";
    backend.host = "127.0.0.1";
    backend.port = port;
    backend.addresses.classes = {AddressClass::kLoopback};  // whatever a name may lead to
    backend.addresses.ranges.clear();
    backend.tls_ca_file.clear();
    backend.tls_client_cert.clear();
    backend.tls_client_key.clear();
    backend.tls_server_name.clear();
    backend.tls.reset();
    backend.secrets.clear();  // no backend here asks for them
    backend.timeout = limits::kDrillPatience;
    backend.connect_timeout = limits::kDrillPatience;
  }
  for (Tool& tool : policy.tools) {
    tool.timeout.reset();
    tool.secrets.clear();
    tool.hold = std::min(tool.hold, limits::kHold);
    if (tool.approval) {
      tool.approval->by = {std::string(kDrillOperator)};
      tool.approval->needs = 1;
      tool.approval->expires = limits::kDrillPatience;
      tool.approval->hold = Millis(0);  // who approves is who waits
      tool.approval->secrets.clear();
    }
    if (tool.settle && tool.settle->absent_after) {
      tool.settle->absent_after = std::min(*tool.settle->absent_after, limits::kDrillAbsentAfter);
    }
    if (!tool.undo) continue;
    AdaptUndo(*tool.undo);
    for (UndoRule& other : tool.other_undos) AdaptUndo(other);
  }
  for (Flow& flow : policy.flows) {
    if (flow.deadline) flow.deadline = deadline;
  }
}

}  // namespace recourse
