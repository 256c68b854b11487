#include "proxy/report/report.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "policy/model/path_shape.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

bool HadEffect(Phase phase) { return phase == Phase::kSucceeded || phase == Phase::kAnswerLost; }

bool IsRepeat(const Event& event) {
  switch (event.verdict) {
    case ObserveVerdict::kWouldReplay:
    case ObserveVerdict::kWouldJoin:
    case ObserveVerdict::kWouldBeUnknown:
    case ObserveVerdict::kWouldResend:
    case ObserveVerdict::kWouldAsk:
      return true;
    case ObserveVerdict::kNone:
      return event.cause == Cause::kResend;
    default:
      return false;
  }
}

bool WouldAskAHuman(ObserveVerdict verdict) {
  return verdict == ObserveVerdict::kWouldHold || verdict == ObserveVerdict::kWouldAsk;
}

// "key-required" of "key-required: the tool x needs ...".
std::string Slug(const std::string& detail) { return detail.substr(0, detail.find_first_of(":;")); }

// By falling cost; equal lines keep the order of their names.
template <class Line, class Cost>
std::vector<Line> Sorted(std::map<std::string, Line>& lines, Cost cost) {
  std::vector<Line*> order;
  for (auto& [name, line] : lines) order.push_back(&line);
  std::map<Line*, std::size_t> place;
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::sort(order.begin(), order.end(), [&](Line* a, Line* b) {
    const auto left = cost(*a);
    const auto right = cost(*b);
    return left != right ? left > right : place[a] < place[b];
  });
  std::vector<Line> sorted;
  for (Line* line : order) sorted.push_back(std::move(*line));
  return sorted;
}

}  // namespace

template <class Line>
Line* ReportBuilder::LineOf(std::map<std::string, Line>& lines, const std::string& name) {
  const auto at = lines.find(name);
  if (at != lines.end()) return &at->second;
  if (lines.size() >= limits::kReportLinesMax) {
    report_.is_cut = true;
    return nullptr;
  }
  return &lines[name];
}

const ReportBuilder::Operation* ReportBuilder::Known(std::uint64_t operation) const {
  const auto at = operations_.find(operation);
  return at == operations_.end() ? nullptr : &at->second;
}

ReportBuilder::Operation& ReportBuilder::StateOf(const Event& event) {
  const auto [at, is_new] = operations_.try_emplace(event.operation);
  if (is_new) {
    at->second.start_ms = event.wall_ms;
    at->second.trace = event.trace_id;
    order_.push_back(event.operation);
    if (order_.size() > limits::kReportOperationsMax) {
      operations_.erase(order_.front());
      order_.pop_front();
      report_.is_cut = true;
    }
  }
  return at->second;
}

void ReportBuilder::Add(const Event& event) {
  if (event.wall_ms < report_.period.since_ms || event.wall_ms >= report_.period.until_ms) return;
  ++report_.events;
  Operation& operation = StateOf(event);
  const Phase before = operation.phase;
  operation.phase = event.phase;
  if (before != Phase::kNone) --report_.outcomes[std::string(NameOf(before))];
  ++report_.outcomes[std::string(NameOf(event.phase))];
  if (event.phase == Phase::kDispatching) AddDispatch(event);
  AddOutcome(event, operation);
}

void ReportBuilder::AddDispatch(const Event& event) {
  ++report_.calls;
  if (auto* tool = LineOf(tools_, event.tool)) {
    tool->tool = event.tool;
    ++tool->calls;
  }
  if (policy_.FindTool(event.tool) == nullptr && event.tool.starts_with("unlisted.")) {
    const std::string shape = PathShape(event.path, limits::kUnlistedShapeBytesMax);
    if (auto* line = LineOf(unlisted_, event.backend + " " + event.method + " " + shape)) {
      *line = {event.backend, "write", event.method, shape, line->calls + 1};
    }
  }
  if (event.verdict != ObserveVerdict::kNone) {
    ++report_.verdicts[std::string(NameOf(event.verdict))];
  }
  if (event.verdict == ObserveVerdict::kWouldConflict) AddTrouble(event, "key-reused");
  if (event.verdict == ObserveVerdict::kNotJudged) AddTrouble(event, "not-judged");
  if (event.verdict == ObserveVerdict::kWouldRefuse) {
    AddTrouble(event, event.detail.empty() ? "refused" : Slug(event.detail));
    AddRefused(event);
  }
  if (WouldAskAHuman(event.verdict)) AddHeld(event);
  if (IsRepeat(event)) AddRepeat(event);
  if (event.attempt == 1) AddIntent(event);
}

void ReportBuilder::AddRepeat(const Event& event) {
  const std::uint64_t first = event.related != 0 ? event.related : event.operation;
  std::int64_t start_ms = event.wall_ms;
  std::string trace = event.trace_id;
  if (const Operation* known = Known(first)) {
    start_ms = known->start_ms;
    trace = known->trace;
  } else if (const auto found = find_first_(first)) {
    start_ms = found->wall_ms;
    trace = found->trace_id;
  }
  ++report_.repeats;
  if (trace != event.trace_id) AddTrouble(event, "retried-under-another-trace");
  auto* group = LineOf(duplicates_, event.tool);
  if (group == nullptr) return;
  const std::int64_t gap_ms = std::max<std::int64_t>(event.wall_ms - start_ms, 0);
  DuplicateLine& line = group->line;
  line.tool = event.tool;
  line.min_ms = line.repeats == 0 ? gap_ms : std::min(line.min_ms, gap_ms);
  line.max_ms = std::max(line.max_ms, gap_ms);
  ++line.repeats;
  ++line.verdicts[event.verdict == ObserveVerdict::kNone ? "resent"
                                                         : std::string(NameOf(event.verdict))];
  if (line.examples.size() < limits::kReportExamplesMax) {
    line.examples.push_back({first, event.operation, gap_ms, trace, event.trace_id, event.path});
  }
  if (group->gaps_ms.size() < limits::kReportGapsMax) {
    group->gaps_ms.push_back(gap_ms);
  } else {
    report_.is_cut = true;
  }
  if (pairs_.size() < limits::kReportOperationsMax) {
    pairs_.push_back({first, event.operation, event.tool});
  } else {
    report_.is_cut = true;
  }
}

// The same intent again, as an operation that nothing stood in the way of.
void ReportBuilder::AddIntent(const Event& event) {
  if (event.intent == Digest{}) return;
  const auto at = intents_.find(event.intent);
  if (at != intents_.end()) {
    const Tool* const tool = policy_.FindTool(event.tool);
    const auto window = (tool == nullptr ? limits::kDedupeWindow : tool->dedupe_window).count();
    // Within its window it is new for another reason, which no other window mends.
    if (event.trace_id.empty() || at->second.trace.empty()) {
      AddTrouble(event, "again-without-a-trace");
    } else if (at->second.trace != event.trace_id) {
      AddTrouble(event, "again-under-another-trace");
    } else if (event.wall_ms - at->second.wall_ms > window) {
      AddTrouble(event, "again-after-its-window");
    }
    at->second = {event.trace_id, event.wall_ms};
  } else if (intents_.size() < limits::kReportOperationsMax) {
    intents_.emplace(event.intent, Intent{event.trace_id, event.wall_ms});
  } else {
    report_.is_cut = true;
  }
}

void ReportBuilder::AddOutcome(const Event& event, Operation& operation) {
  if (!operation.unknown_line.empty()) {
    --unknown_[operation.unknown_line].open;
    operation.unknown_line.clear();
  }
  if (event.phase != Phase::kUncertain) return;
  const std::string cause(NameOf(event.cause));
  auto* line = LineOf(unknown_, event.tool + " " + cause);
  if (line == nullptr) return;
  line->tool = event.tool;
  line->cause = cause;
  if (line->calls == 0) line->example = event.operation;
  ++line->calls;
  // Nothing waits for what observe mode saw.
  if (event.verdict != ObserveVerdict::kNone) return;
  operation.unknown_line = event.tool + " " + cause;
  ++line->open;
}

void ReportBuilder::AddHeld(const Event& event) {
  const std::string verdict(NameOf(event.verdict));
  auto* line = LineOf(held_, event.tool + " " + verdict);
  if (line == nullptr) return;
  if (line->calls == 0) *line = {event.tool, verdict, 0, event.operation};
  ++line->calls;
}

void ReportBuilder::AddRefused(const Event& event) {
  const std::string shape = PathShape(event.path, limits::kUnlistedShapeBytesMax);
  auto* line =
      LineOf(refused_, event.detail + " " + event.backend + " " + event.method + " " + shape);
  if (line == nullptr) return;
  *line = {event.backend, "write", event.method, shape, event.detail, line->calls + 1};
}

void ReportBuilder::AddTrouble(const Event& event, const std::string& trouble) {
  auto* line = LineOf(keys_, trouble + " " + event.tool);
  if (line == nullptr) return;
  if (line->calls == 0) *line = {event.tool, trouble, 0, event.operation};
  ++line->calls;
}

void ReportBuilder::JudgePairs() {
  for (const Pair& pair : pairs_) {
    const Operation* first = Known(pair.first);
    const Operation* repeat = Known(pair.repeat);
    DuplicateLine& line = duplicates_[pair.tool].line;
    const Phase a = first == nullptr ? Phase::kUncertain : first->phase;
    const Phase b = repeat == nullptr ? Phase::kUncertain : repeat->phase;
    if (pair.first != pair.repeat && HadEffect(a) && HadEffect(b)) {
      ++line.double_effects;
      ++report_.double_effects;
    } else if (MayHaveEffect(a) && MayHaveEffect(b)) {
      ++line.possible_effects;
      ++report_.possible_effects;
    }
  }
}

std::string ReportBuilder::WhyNoUndo(const std::string& name, bool* is_explained) const {
  const Tool* tool = policy_.FindTool(name);
  *is_explained = tool != nullptr && !tool->reason.empty();
  if (tool == nullptr) {
    return name.starts_with("unlisted.") ? "no tool of the policy matches these calls"
                                         : "the policy has no such tool any more";
  }
  if (tool->undo) return {};
  return *is_explained ? "reason: " + tool->reason : "no undo and no reason, only an approval";
}

Report ReportBuilder::Finish() {
  JudgePairs();
  std::map<std::string, DuplicateLine> duplicates;
  for (auto& [name, group] : duplicates_) {
    const auto middle =
        group.gaps_ms.begin() + static_cast<std::ptrdiff_t>((group.gaps_ms.size() - 1) / 2);
    std::nth_element(group.gaps_ms.begin(), middle, group.gaps_ms.end());
    group.line.median_ms = *middle;
    duplicates.emplace(name, std::move(group.line));
  }
  report_.duplicates = Sorted(duplicates, [](const DuplicateLine& line) {
    return std::tuple(line.double_effects, line.possible_effects, line.repeats);
  });
  report_.unknown =
      Sorted(unknown_, [](const UnknownLine& line) { return std::tuple(line.open, line.calls); });
  for (auto at = tools_.begin(); at != tools_.end();) {
    at->second.why = WhyNoUndo(at->first, &at->second.is_explained);
    at = at->second.why.empty() ? tools_.erase(at) : std::next(at);
  }
  report_.without_undo = Sorted(tools_, [](const WithoutUndoLine& line) {
    return std::tuple(!line.is_explained, line.calls);
  });
  const auto calls = [](const auto& line) { return line.calls; };
  report_.held = Sorted(held_, calls);
  report_.unlisted = Sorted(unlisted_, calls);
  report_.refused = Sorted(refused_, calls);
  report_.keys = Sorted(keys_, calls);
  std::erase_if(report_.outcomes, [](const auto& entry) { return entry.second == 0; });
  return std::move(report_);
}

}  // namespace recourse
