#include "proxy/server/flow_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "proxy/admin/problem.h"
#include "proxy/base/json.h"
#include "proxy/base/limits.h"
#include "proxy/server/flow_json.h"
#include "proxy/server/query.h"

namespace recourse {
namespace {

constexpr std::array<std::pair<std::string_view, FlowAction::Kind>, 4> kVerbs = {{
    {"close", FlowAction::Kind::kClose},
    {"cancel", FlowAction::Kind::kCancel},
    {"undo", FlowAction::Kind::kUndo},
    {"retry", FlowAction::Kind::kRetry},
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

// What an operator says with an action.
struct Word {
  std::string reason, by, as;
  std::uint64_t step = 0;
};

// Its error is a line for people.
std::expected<std::string, std::string> OneLine(const Json& value, std::string_view name) {
  if (value.kind != Json::Kind::kString) {
    return std::unexpected(fmt::format("'{}' must be a string", name));
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(value.text.begin(), value.text.end(), is_control)) {
    return std::unexpected(fmt::format("'{}' must be one line", name));
  }
  const auto first = value.text.find_first_not_of(' ');
  if (first == std::string::npos) return std::string();
  return value.text.substr(first, value.text.find_last_not_of(' ') - first + 1);
}

// `by` is who gave the order: whom the credential names. A shared one says who, and proves only
// that it is the shared one: "admin (ada)".
std::expected<Word, std::string> ReadWord(const std::string& body, const Operator& who) {
  Word word;
  word.by = who.name;
  if (body.empty()) return word;
  const auto json = ParseJson(body);
  if (!json || json->kind != Json::Kind::kObject) {
    return std::unexpected("the body must be a JSON object such as {\"reason\": \"...\"}");
  }
  for (const auto& [name, value] : json->members) {
    if (name == "step") {
      if (!ParseNumber(ScalarText(value), word.step) || word.step == 0) {
        return std::unexpected("'step' must be the number of a step, as /flows/{id} shows it");
      }
      continue;
    }
    std::string said;
    std::string* const into = name == "reason" ? &word.reason
                              : name == "by"   ? &said
                              : name == "as"   ? &word.as
                                               : nullptr;
    if (into == nullptr) {
      return std::unexpected(fmt::format("'{}' is not one of reason, by, step, as", name));
    }
    if (name == "by" && !who.is_shared()) {
      return std::unexpected(fmt::format(
          "'by' (--as-user) is only for the shared token of --admin-token-file; this order is {}'s",
          who.name));
    }
    auto line = OneLine(value, name);
    if (!line) return std::unexpected(line.error());
    *into = std::move(*line);
    if (!said.empty()) word.by = who.name + " (" + said + ")";
  }
  if (word.reason.size() + word.by.size() + 2 > limits::kFlowReasonBytesMax) {
    return std::unexpected(
        fmt::format("reason and by have more than {} bytes", limits::kFlowReasonBytesMax - 2));
  }
  return word;
}

// Who did it comes first.
std::string ReasonOf(const Word& word) { return word.by + ": " + word.reason; }

}  // namespace

HttpResponse FlowApi::Handle(const HttpRequest& request, std::string_view path,
                             std::string_view query, const Operator& who) {
  constexpr std::string_view kOne = "/flows/";
  if (path == "/flows") return List(query);
  const std::string_view rest = path.substr(kOne.size());
  const auto slash = rest.find('/');
  const std::string_view verb =
      slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  const bool is_shown = verb.empty() || verb == "preview";
  const auto kind = KindOf(kVerbs, verb);
  const bool is_preview = kind == FlowAction::Kind::kUndo && query == "preview=true";
  if (!query.empty() && !is_preview) {
    return Problem(400, "Unknown parameter", "only undo takes one: ?preview=true");
  }
  std::string id;
  if (!PercentDecode(rest.substr(0, slash), id) || id.empty()) {
    return Problem(400, "Bad flow id", "name the flow by its number or its flow id");
  }
  auto state = Find(id);
  if (!state) return state.error();
  if (is_shown || is_preview) return Show(*state, !verb.empty());
  if (parts_.is_observing()) {
    return Problem(409, "Not done", "observe mode sends nothing and leaves flows as they are");
  }
  if (kind) return Act(*kind, std::move(*state), request, who);
  return Resolve(std::move(*state), request, who);
}

HttpResponse FlowApi::List(std::string_view query) {
  std::optional<FlowPhase> phase;
  std::uint64_t limit = 100, after = 0;
  bool is_all = false;
  for (const auto& [name, value] : ParsePairs(query)) {
    bool good = true;
    std::string_view accepted = "a number";
    if (name == "phase") {
      good = (phase = FlowPhaseFromName(value)).has_value() && phase != FlowPhase::kNone;
      accepted = "OPEN, COMMITTED, BREAKING, UNDOING, UNDONE or NEEDS_HUMAN";
    } else if (name == "limit") {
      good = ParseNumber(value, limit) && limit > 0 && limit <= limits::kAdminPageMax;
      accepted = "1 to 1000";
    } else if (name == "after") {
      good = ParseNumber(value, after);
    } else if (name == "all") {
      good = value == "true";
      is_all = true;
      accepted = "true";
    } else {
      return Problem(400, "Unknown parameter",
                     "'" + name + "' is not one of phase, limit, after, all");
    }
    if (!good) {
      return Problem(400, "Bad parameter",
                     fmt::format("'{}' is no value for {}; accepted: {}", value, name, accepted));
    }
  }
  std::vector<FlowState> flows;
  if (is_all) {
    auto newest = parts_.ledger.NewestFlows(limits::kFlowsMax);
    if (!newest) return NoLedger(newest.error().detail());
    flows = std::move(*newest);
  } else {
    auto open = NotOver();
    if (!open) return open.error();
    flows = std::move(*open);
  }
  std::erase_if(flows, [&](const FlowState& state) {
    return state.number <= after || (phase && state.phase != *phase);
  });
  // Of all flows the newest are asked for, of those not over the oldest.
  const std::size_t most = static_cast<std::size_t>(limit);
  const std::size_t over = flows.size() > most ? flows.size() - most : 0;
  if (is_all) flows.erase(flows.begin(), flows.begin() + static_cast<std::ptrdiff_t>(over));
  flows.resize(std::min(flows.size(), most));
  std::string body = "{\"flows\":[";
  for (const FlowState& state : flows) {
    if (body.back() == '}') body.push_back(',');
    AppendFlowLine(body, state);
  }
  body += fmt::format("],\"next\":{}}}",
                      over > 0 && !is_all ? std::to_string(flows.back().number) : "null");
  return JsonAnswer(std::move(body));
}

std::expected<std::vector<FlowState>, HttpResponse> FlowApi::NotOver() {
  std::vector<FlowState> flows;
  for (std::uint64_t after = 0;;) {
    auto page = parts_.runner.List(after, limits::kAdminPageMax);
    if (!page) return std::unexpected(NoLedger(page.error()));
    if (page->empty()) return flows;
    after = page->back().number;
    std::move(page->begin(), page->end(), std::back_inserter(flows));
  }
}

std::expected<FlowState, HttpResponse> FlowApi::Find(const std::string& id) {
  std::uint64_t number = 0;
  if (ParseNumber(id, number) && number > 0) {
    auto open = parts_.runner.List(number - 1, 1);
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
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(state.number);
  }
  return std::unexpected(Problem(409, "Which flow",
                                 fmt::format("{} flows are called '{}'; name one by its number: {}",
                                             flows->size(), id, numbers)));
}

HttpResponse FlowApi::Show(const FlowState& state, bool as_preview) {
  const auto view =
      ViewFlow(parts_.ledger, parts_.policy, state, ToUnixMillis(parts_.clock.WallNow()));
  if (!view) return NoLedger(view.error().detail());
  return JsonAnswer(as_preview ? PreviewJson(*view) : FlowJson(*view));
}

HttpResponse FlowApi::Act(FlowAction::Kind kind, FlowState state, const HttpRequest& request,
                          const Operator& who) {
  auto word = ReadWord(request.body, who);
  if (!word) return Problem(400, "Bad body", word.error());
  if (word->step != 0 || !word->as.empty()) {
    return Problem(400, "Bad body", "'step' and 'as' are for resolve");
  }
  if (word->reason.empty() && kind == FlowAction::Kind::kRetry) {
    word->reason = "retried by an operator";
  }
  if (word->reason.empty()) {
    return Problem(400, "No reason", "say why, for the log: {\"reason\": \"...\"}");
  }
  if (kind == FlowAction::Kind::kUndo) {
    const auto view =
        ViewFlow(parts_.ledger, parts_.policy, state, ToUnixMillis(parts_.clock.WallNow()));
    if (!view) return NoLedger(view.error().detail());
    if (!view->refused.empty()) return Problem(409, "Not undone", view->refused);
  }
  return Do({.kind = kind, .number = state.number, .reason = ReasonOf(*word)}, std::move(state));
}

HttpResponse FlowApi::Resolve(FlowState state, const HttpRequest& request, const Operator& who) {
  const auto word = ReadWord(request.body, who);
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
  if (word->reason.empty()) {
    return Problem(400, "No reason", "say why, for the log: {\"reason\": \"...\"}");
  }
  return Do(
      {.kind = *kind, .number = state.number, .operation = word->step, .reason = ReasonOf(*word)},
      std::move(state));
}

HttpResponse FlowApi::Do(FlowAction action, FlowState state) {
  action.found = std::move(state);
  const auto moved = parts_.runner.Act(action);
  if (!moved) return Problem(409, "Not done", moved.error());
  return Show(*moved, false);
}

}  // namespace recourse
