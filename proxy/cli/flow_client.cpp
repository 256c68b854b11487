#include "proxy/cli/flow_client.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <sstream>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/log/terminal_text.h"
#include "proxy/cli/api_call.h"
#include "proxy/cli/ledger_states.h"
#include "proxy/cli/table.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

constexpr int kFlowLookEveryMs = 1'000;

constexpr Column kFlowColumns[] = {
    {"FLOW", 8, Column::Kind::kWhole, 0, Column::Side::kRight},
    {"CHANGED", 24, Column::Kind::kTime},
    {"PHASE", 11, Column::Kind::kWhole},
    {"STEPS", 5, Column::Kind::kWhole, 0, Column::Side::kRight},
    {"UNDONE", 6, Column::Kind::kWhole, 0, Column::Side::kRight},
    {"NAME", 16, Column::Kind::kText, 8},
    {"FLOW ID", 34, Column::Kind::kExtra, 9},
    {"REASON", 32, Column::Kind::kText, 24},
};
constexpr Column kStepColumns[] = {
    {"STEP", 8, Column::Kind::kWhole, 0, Column::Side::kRight},
    {"TOOL", 22, Column::Kind::kText, 10},
    {"PHASE", 11, Column::Kind::kWhole},
    {"CALL", 32, Column::Kind::kText, 12},
    {"EXTERNAL REF", 14, Column::Kind::kText, 8},
    {"UNDO", 24, Column::Kind::kText, 13},
};

// Why it is where it is; that it began is no reason.
std::string ReasonOf(const Json& flow) {
  if (std::string reason = Printable(flow, "reason"); !reason.empty()) return reason;
  const std::string cause = Printable(flow, "cause");
  return cause == "first_step" ? std::string() : cause;
}

void AddFlowRow(PodTable& table, const Json& flow) {
  table.Row(flow, {Printable(flow, "number"), Printable(flow, "changed"), Printable(flow, "phase"),
                   Printable(flow, "step_count"), Printable(flow, "undone_count"),
                   Printable(flow, "name"), Printable(flow, "flow"), ReasonOf(flow)});
}

// "POST http://shop/refunds {"charge":"c1"}", with its header fields below.
void PrintRequest(std::ostream& out, const Json& request, std::string_view indent) {
  out << indent << Printable(request, "method") << " " << Printable(request, "url") << "\n";
  if (const Json* headers = request.Find("headers")) {
    for (const Json& field : headers->items) {
      if (field.items.size() != 2) continue;
      out << indent << "  " << TerminalText(ScalarText(field.items[0])) << ": "
          << TerminalText(ScalarText(field.items[1])) << "\n";
    }
  }
  if (const std::string body = Printable(request, "body"); !body.empty()) {
    out << indent << "  " << body << "\n";
  } else if (const std::string coded = Printable(request, "body_base64"); !coded.empty()) {
    out << indent << "  (base64) " << coded << "\n";
  }
}

// "it was refused: 422 {"error":"sold out"}"
void PrintSaid(std::ostream& out, const Json& step, std::string_view name, std::string_view what) {
  const Json* const said = step.Find(name);
  if (said == nullptr) return;
  const std::string body = Printable(*said, "body");
  const std::string coded = Printable(*said, "body_base64");
  out << "          " << what << ": " << Printable(*said, "status")
      << (coded.empty() ? " " : " (base64) ") << body << coded << "\n";
}

// What somebody has changed since: what was there before the step, what it left, what is there.
void PrintDrift(std::ostream& out, const Json& step) {
  const Json* const drift = step.Find("changed_since");
  if (drift == nullptr) return;
  for (const Json& place : drift->items) {
    out << "          " << Printable(place, "place") << "\n";
    for (const std::string_view name : {"before", "ours", "now"}) {
      const bool is_there = place.Find(name) != nullptr;
      out << fmt::format("            {:<8}{}\n", name,
                         is_there ? Printable(place, name) : "(not there)");
    }
  }
}

// What undoing means for a step, in a few words.
std::string UndoWords(const Json& step) {
  const std::string does = Printable(step, "undo");
  const std::string why = Printable(step, "why");
  if (Printable(step, "phase") == "COMPENSATED") {
    return Printable(step, "undo_phase") == "SUCCEEDED" ? "undone" : "undone by hand";
  }
  if (Printable(step, "not_needed") == "true") return "may stay";
  if (does == "settle") return "unknown: " + why;
  if (does == "skip") return "not needed: " + why;
  if (does == "stop") return "cannot be undone: " + why;
  if (does == "too_old") return "too old: " + why;
  if (does != "send") return "nothing to undo";
  const std::string attempts = Printable(step, "undo_attempts");
  if (attempts == "0") return "can be undone";
  if (step.Find("changed_since") != nullptr && Printable(step, "undo_phase") == "REJECTED") {
    const bool was_sent = step.Find("undo_said") != nullptr;  // on condition
    return was_sent ? "undo refused: changed since" : "undo not sent: changed since";
  }
  return "undo " + Printable(step, "undo_phase") + " after " + attempts +
         (attempts == "1" ? " try" : " tries");
}

void PrintFlow(std::ostream& out, const Json& flow) {
  const auto line = [&](std::string_view label, std::string_view name) {
    if (const std::string value = Printable(flow, name); !value.empty()) {
      out << fmt::format("{:<10}{}\n", label, value);
    }
  };
  line("flow", "number");
  line("flow id", "flow");
  line("name", "name");
  line("caller", "caller");
  line("pod", "pod");
  line("phase", "phase");
  line("cause", "cause");
  line("reason", "reason");
  line("began", "began");
  line("changed", "changed");
  const Json* steps = flow.Find("steps");
  if (steps == nullptr) return;
  out << "\n";
  Table table(kStepColumns);
  for (const Json& step : steps->items) {
    std::ostringstream below;
    PrintSaid(below, step, "said", "it was refused");
    if (Printable(step, "undo_phase") != "SUCCEEDED") {
      PrintSaid(below, step, "undo_said", "its undo was answered");
    }
    PrintDrift(below, step);
    if (const Json* request = step.Find("undo_request")) {
      PrintRequest(below, *request, "          ");
    }
    table.Row({Printable(step, "step"), Printable(step, "tool"), Printable(step, "phase"),
               Printable(step, "method") + " " + Printable(step, "path"),
               Printable(step, "external_ref"), UndoWords(step)},
              below.str());
  }
  out << table.Take(LookOf(out));
}

void PrintPreview(std::ostream& out, const Json& preview) {
  const Json* plan = preview.Find("plan");
  if (plan == nullptr) return;
  const std::string number = Printable(preview, "number");
  const std::string phase = Printable(preview, "phase");
  out << "flow " << number << " is " << phase << "; undoing it would, in this order:\n";
  int place = 0;
  for (const Json& step : plan->items) {
    out << fmt::format("{:>3}. step {} ({}): ", ++place, Printable(step, "step"),
                       Printable(step, "tool"));
    const std::string does = Printable(step, "undo");
    const std::string why = Printable(step, "why");
    if (does == "send") {
      out << (Printable(step, "reached") == "true" ? "send\n" : "not be reached; it would send\n");
    } else if (does == "skip") {
      out << "send nothing: " << why << "\n";
    } else if (does == "settle") {
      out << "find out first whether it took effect\n";
    } else if (does == "too_old") {
      out << "be refused: " << why << "\n";
    } else {
      out << "need a human: " << why << "\n";
    }
    if (const Json* request = step.Find("undo_request")) PrintRequest(out, *request, "       ");
  }
  if (plan->items.empty()) out << "  send nothing: no step has an effect that stands\n";
  if (const std::string refused = Printable(preview, "refused"); !refused.empty()) {
    out << "it is refused: " << refused << "\n";
  } else if (phase == "COMMITTED") {
    out << "nothing was sent; to send it: recourse flows undo " << number
        << " --yes --reason TEXT\n";
  } else if (phase == "OPEN") {
    out << "nothing was sent; to send it: recourse flows cancel " << number << " --reason TEXT\n";
  } else if (phase == "NEEDS_HUMAN") {
    out << "nothing was sent; to try again: recourse flows retry " << number << "\n";
  }
}

// What comes next, after an order was taken.
std::string Outlook(std::string_view phase, const std::string& number) {
  if (phase == "BREAKING" || phase == "UNDOING") {
    return "; it is being undone, see: recourse flows show " + number;
  }
  return phase == "COMMITTED" ? "; what was done stays" : "";
}

const char* OrderPathOf(std::string_view verb) {
  static constexpr std::pair<std::string_view, const char*> kOrderPaths[] = {
      {"cancel", admin_paths::kFlowCancel},
      {"close", admin_paths::kFlowClose},
      {"retry", admin_paths::kFlowRetry},
      {"undo", admin_paths::kFlowUndo}};
  for (const auto& [name, path] : kOrderPaths) {
    if (name == verb) return path;
  }
  return admin_paths::kFlowResolve;
}

std::string BodyOf(const FlowOrderArguments& order) {
  return ObjectText([&](JsonObject& json) {
    json.Text("reason", order.reason);
    json.TextIfAny("by", order.by);
    if (order.verb != "resolve") return;
    if (const auto step = ParseRowId(order.step)) {
      json.Raw("step", RowIdJson(*step));
    } else {
      json.Text("step", order.step);
    }
    json.Text("as", order.as);
    json.TextIfAny("external_ref", order.external_ref);
  });
}

// Further parameters of a query.
std::string WhichOf(const FlowQuery& query) {
  std::string which;
  if (!query.name.empty()) which += "&name=" + PercentEncode(query.name);
  if (!query.matching.empty()) which += "&reason=" + PercentEncode(query.matching);
  return which;
}

std::string FlowsTarget(const FlowQuery& query, const std::string& after, std::uint64_t limit) {
  std::string target = admin_paths::kFlows + ("?after=" + PercentEncode(after)) +
                       "&limit=" + std::to_string(std::min(limit, kAdminPageMax));
  if (query.parked) target += "&phase=NEEDS_HUMAN&stopped=false";
  if (query.stopped) target += "&stopped=true";
  if (!query.phase.empty()) target += "&phase=" + PercentEncode(query.phase);
  if (query.all) target += "&all=true";
  if (!query.pod.empty()) target += "&pod=" + PercentEncode(query.pod);
  return target + WhichOf(query);
}

// What of a flow a person waits for.
std::string StateOf(const Json& flow) {
  return Printable(flow, "phase") + " " + Printable(flow, "step_count") + " " +
         Printable(flow, "undone_count");
}

// Prints each flow when it begins, moves, and leaves the list; with --json one a line.
int FollowFlows(const ApiClient& client, const FlowQuery& query, std::ostream& out,
                std::ostream& err) {
  std::map<std::string, std::string> known;  // state by number
  PodTable table(out, kFlowColumns);
  const auto print = [&](const Json& flow) {
    if (client.json) {
      out << LineOfJson(flow) << "\n";
    } else {
      AddFlowRow(table, flow);
    }
  };
  LedgerStates states(err);
  if (!client.json) table.Expect(client);
  for (;; (void)::poll(nullptr, 0, kFlowLookEveryMs)) {
    const auto text = Call(client, "GET", FlowsTarget(query, "0", query.limit));
    if (!text) return Fail(err, text.error());
    const auto page = ParseJson(*text);
    const Json* flows = page ? page->Find("flows") : nullptr;
    if (flows == nullptr) return Fail(err, kNotUnderstood);
    states.Tell(*page);
    std::map<std::string, std::string> now;
    for (const Json& flow : flows->items) {
      const std::string number = Printable(flow, "number"), state = StateOf(flow);
      now[number] = state;
      const auto was = known.find(number);
      if (was == known.end() || was->second != state) print(flow);
    }
    for (const auto& [number, state] : known) {
      if (now.contains(number)) continue;
      const auto one = Call(client, "GET", admin_paths::FillPlace(admin_paths::kFlow, number));
      if (const auto flow = one ? ParseJson(*one) : ParseJson("")) print(*flow);
    }
    table.Flush();
    out.flush();
    known = std::move(now);
  }
}

// Page by page: each flow is closed for good before the next one.
int CloseStopped(const ApiClient& client, const FlowOrderArguments& order, std::ostream& out,
                 std::ostream& err) {
  const std::string target = admin_paths::kCloseStopped + ("?limit=100" + WhichOf(order.stopped));
  for (std::string left = "1"; left != "0";) {
    const auto text =
        Call(client, {"POST", target, {{"Content-Type", "application/json"}}, BodyOf(order)});
    if (!text) return Fail(err, text.error());
    const auto closed = ParseJson(*text);
    const Json* const flows = closed ? closed->Find("flows") : nullptr;
    if (flows == nullptr) return Fail(err, kNotUnderstood);
    if (client.json) out << *text << "\n";
    for (const Json& flow : flows->items) {
      if (client.json) break;
      out << "flow " << Printable(flow, "number") << " is " << Printable(flow, "phase") << "\n";
    }
    left = flows->items.empty() ? "0" : Printable(*closed, "left");
  }
  return kExitOk;
}

}  // namespace

int ListFlows(const ApiClient& client, const FlowQuery& query, std::ostream& out,
              std::ostream& err) {
  if (int{query.parked} + int{query.stopped} + int{!query.phase.empty()} > 1) {
    err << "recourse: --parked, --stopped and --phase exclude each other\n";
    return kExitUsage;
  }
  if (query.follows) return FollowFlows(client, query, out, err);
  std::uint64_t left = query.limit;
  std::string after = "0";
  std::string json = "[";
  PodTable table(out, kFlowColumns);
  LedgerStates states(err);
  while (left > 0 && !after.empty()) {
    const auto text = Call(client, "GET", FlowsTarget(query, after, left));
    if (!text) return Fail(err, text.error());
    const auto page = ParseJson(*text);
    const Json* flows = page ? page->Find("flows") : nullptr;
    if (flows == nullptr) return Fail(err, kNotUnderstood);
    states.Tell(*page);
    left -= std::min<std::uint64_t>(left, flows->items.size());
    after = Printable(*page, "next");
    if (client.json) {
      AppendItems(json, *text, "flows");
      continue;
    }
    for (const Json& flow : flows->items) AddFlowRow(table, flow);
    table.Flush();
    if (!table.is_begun() && after.empty()) {
      out << (query.all ? "none\n" : "none; --all shows ended ones\n");
    }
  }
  if (client.json) out << json << "]\n";
  return states.exit_code();
}

int ShowFlow(const ApiClient& client, const std::string& id, std::ostream& out, std::ostream& err) {
  const auto flow = Show(client, admin_paths::FillPlace(admin_paths::kFlow, id), out, err);
  if (!flow) return flow.error();
  PrintFlow(out, *flow);
  return kExitOk;
}

int OrderFlow(const ApiClient& client, const FlowOrderArguments& order, std::ostream& out,
              std::ostream& err) {
  if (order.verb == "undo" && order.preview == order.yes) {
    err << "recourse: undo sends requests; look at them first: recourse flows undo " << order.id
        << " --preview; then send them: --yes --reason TEXT\n";
    return kExitUsage;
  }
  if (order.preview) {
    const auto preview =
        Show(client, admin_paths::FillPlace(admin_paths::kFlowPreview, order.id), out, err);
    if (!preview) return preview.error();
    PrintPreview(out, *preview);
    return kExitOk;
  }
  if (order.verb != "retry" && order.reason.empty()) {
    err << "recourse: say why with --reason TEXT: it is kept with the flow\n";
    return kExitUsage;
  }
  const bool selects = !order.stopped.name.empty() || !order.stopped.matching.empty();
  if (order.id.empty() != order.stopped.stopped || (selects && !order.stopped.stopped)) {
    err << "recourse: name one flow, or give --stopped, with --name and --matching where wanted\n";
    return kExitUsage;
  }
  if (order.stopped.stopped) return CloseStopped(client, order, out, err);
  const auto flow = Show(client,
                         HttpRequest{"POST",
                                     admin_paths::FillPlace(OrderPathOf(order.verb), order.id),
                                     {{"Content-Type", "application/json"}},
                                     BodyOf(order)},
                         out, err);
  if (!flow) return flow.error();
  const std::string phase = Printable(*flow, "phase");
  out << "flow " << Printable(*flow, "number") << " is " << phase
      << Outlook(phase, Printable(*flow, "number")) << "\n";
  return kExitOk;
}

}  // namespace recourse
