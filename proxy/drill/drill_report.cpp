#include "proxy/drill/drill_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

using Kill = DrillRow::Kill;
using Line = std::vector<std::string>;

std::string_view NameOf(Kill kill) {
  switch (kill) {
    case Kill::kNone:
      return "none";
    case Kill::kBefore:
      return "before";
    case Kill::kAfter:
      return "after";
    case Kill::kTwice:
      return "twice";
  }
  return "none";
}

std::string OutcomeWords(const DrillRow& row) {
  if (!row.was_run) return "not run";
  if (!row.is_reached) return "not reached";
  return row.result.verdict.broken.empty() ? "kept" : "BROKEN";
}

// Which operation it was differs from run to run.
std::string WithoutNumbers(std::string reason) {
  constexpr std::string_view kNumber = " (operation ";
  for (auto at = reason.find(kNumber); at != std::string::npos; at = reason.find(kNumber)) {
    reason.erase(at, reason.find(')', at) + 1 - at);
  }
  return reason;
}

// What a reader compares; rows of one commit that agree in it are one line.
Line CellsOf(const DrillRow& row, std::vector<std::string>& reasons) {
  const DrillVerdict& verdict = row.result.verdict;
  std::string parked = "-";
  if (!verdict.parked.empty()) {
    const std::string reason = WithoutNumbers(verdict.parked);
    auto at = std::ranges::find(reasons, reason);
    if (at == reasons.end()) at = reasons.insert(at, reason);
    parked = fmt::format("yes ({})", at - reasons.begin() + 1);
  }
  return {std::to_string(verdict.effects), std::to_string(verdict.undone), verdict.phase, parked,
          OutcomeWords(row)};
}

void AppendLines(std::string& out, const std::vector<Line>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const Line& line : lines) {
    std::string text = "   ";
    for (std::size_t i = 0; i < line.size(); ++i)
      text += fmt::format(" {:<{}} ", line[i], widths[i]);
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
}

void AppendScenario(std::string& out, const DrillFindings& findings, std::size_t flow,
                    std::size_t scenario) {
  std::vector<Line> lines{
      {"KILLED", "AT THE COMMIT OF", "EFFECTS", "UNDONE", "FLOW", "PARKED", "PROMISE"}};
  std::vector<std::string> reasons;
  std::vector<const DrillRow*> broken;
  std::size_t commit = 0;
  for (const DrillRow& row : findings.rows) {
    if (row.flow != flow || row.scenario != scenario) continue;
    if (row.was_run && !row.result.verdict.broken.empty()) broken.push_back(&row);
    Line cells = CellsOf(row, reasons);
    Line& last = lines.back();
    const bool is_same = row.kill != Kill::kNone && row.commit == commit &&
                         std::equal(cells.begin(), cells.end(), last.begin() + 2, last.end());
    if (is_same) {
      last[0] += fmt::format(", {}", NameOf(row.kill));
      continue;
    }
    commit = row.commit;
    Line line{row.kill == Kill::kNone ? "never" : std::string(NameOf(row.kill)),
              row.kill == Kill::kNone ? "" : row.at};
    line.insert(line.end(), cells.begin(), cells.end());
    lines.push_back(std::move(line));
  }
  const Scenario& played = findings.plan.flows[flow].scenarios[scenario];
  out += fmt::format("\n  {}\n", played.what);
  AppendLines(out, lines);
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    out += fmt::format("    ({}) {}\n", i + 1, reasons[i]);
  }
  for (const DrillRow* row : broken) {
    out += row->kill == Kill::kNone
               ? std::string("\n    BROKEN, without a kill:\n")
               : fmt::format("\n    BROKEN, killed {} the commit of {}:\n",
                             row->kill == Kill::kTwice ? "twice, first before" : NameOf(row->kill),
                             row->at);
    for (const std::string& why : row->result.verdict.broken) out += "      " + why + "\n";
    out += "      what the backends saw:\n";
    for (const std::string& line : row->result.story) out += "        " + line + "\n";
  }
}

std::string DoubtsText(const Ambiguities& doubts) {
  std::string out;
  for (const Doubt& one : kDoubts) {
    if (doubts.*one.of) out += fmt::format("Doubted: {}. {}\n", one.name, one.means);
  }
  return out;
}

// "1 run was", "2 runs were".
std::string Were(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? " was" : "s were");
}

void AppendRowJson(std::string& out, const DrillFindings& findings, const DrillRow& row) {
  const DrillFlow& flow = findings.plan.flows[row.flow];
  const DrillVerdict& verdict = row.result.verdict;
  JsonObject json(out);
  json.Text("flow", flow.name);
  json.Text("scenario", flow.scenarios[row.scenario].what);
  json.Text("killed", NameOf(row.kill));
  json.Number("commit", row.commit);
  json.Text("at", row.at);
  json.Number("effects", verdict.effects);
  json.Number("undone", verdict.undone);
  json.Text("phase", verdict.phase);
  json.Text("parked", verdict.parked);
  std::string outcome = OutcomeWords(row);
  std::ranges::replace(outcome, ' ', '_');
  std::ranges::transform(outcome, outcome.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  json.Text("promise", outcome);
  json.Texts("broken", verdict.broken);
}

}  // namespace

DrillSums SumsOf(const DrillFindings& findings) {
  DrillSums sums;
  for (const DrillRow& row : findings.rows) {
    if (!row.was_run) {
      ++sums.not_run;
      continue;
    }
    sums.kills += row.result.struck;
    if (!row.is_reached) ++sums.not_reached;
    if (!row.result.verdict.broken.empty()) ++sums.broken;
    if (!row.result.verdict.parked.empty()) ++sums.parked;
  }
  return sums;
}

std::string DrillSummary(const DrillFindings& findings) {
  const DrillSums sums = SumsOf(findings);
  const double seconds = static_cast<double>(findings.took.count()) / 1000.0;
  const std::size_t made = findings.rows.size() - sums.not_run;
  std::string out = fmt::format(
      "{}: {} flow{}, {} run{}, {} kill{}, {} ended parked for a human, in {:.1f} s\n",
      sums.is_kept()    ? "promise kept"
      : sums.broken > 0 ? "PROMISE BROKEN"
                        : "NOT PROVEN",
      findings.plan.flows.size(), findings.plan.flows.size() == 1 ? "" : "s", made,
      made == 1 ? "" : "s", sums.kills, sums.kills == 1 ? "" : "s", sums.parked, seconds);
  if (sums.not_reached > 0) {
    out += fmt::format("{} not reached: those runs made fewer commits\n",
                       Were(sums.not_reached, "kill"));
  }
  if (sums.not_run > 0) {
    out += fmt::format(
        "{} not made, for want of time: give more with --timeout, or drill one flow at a time with "
        "--flow\n",
        Were(sums.not_run, "run"));
  }
  if (sums.broken > 0) {
    out += fmt::format(
        "{} BROKEN: an effect came twice, got lost, was not undone, or the log tells of "
        "it "
        "wrongly; the lines\nunder each table say which. {}\n",
        sums.broken == 1 ? "1 run is" : fmt::format("{} runs are", sums.broken),
        findings.doubts.any()
            ? "That is what the promise rests on: make sure that what was doubted is true."
            : "The backends did what the policy says of them: do not run it.");
  }
  return out;
}

std::string DrillTable(const DrillFindings& findings) {
  std::string out = fmt::format(
      "Drill of {}: made-up calls, scripted backends on this machine, {} times as fast as life;\n"
      "deadlines of flows count as {} s. Each kill is a SIGKILL before a commit is durable, or "
      "after "
      "it and before\nanybody is told; \"twice\": and again at the first commit after the "
      "restart.\n",
      findings.policy, limits::kDrillSpeed, limits::kDrillDeadline.count() / 1000);
  if (findings.is_observing) {
    out += "The policy says mode: observe. The drill shows what it does once it says enforce.\n";
  }
  out += DoubtsText(findings.doubts);
  for (std::size_t i = 0; i < findings.plan.flows.size(); ++i) {
    const DrillFlow& flow = findings.plan.flows[i];
    out += fmt::format("\n{}: {}\n", flow.name, fmt::join(flow.tools, ", "));
    for (std::size_t j = 0; j < flow.scenarios.size(); ++j) AppendScenario(out, findings, i, j);
  }
  if (!findings.plan.skipped.empty()) out += "\nNot drilled\n";
  for (const Skipped& skipped : findings.plan.skipped) {
    out += fmt::format("    {}: {}\n", skipped.what, skipped.why);
  }
  return out + "\n" + DrillSummary(findings);
}

std::string DrillJson(const DrillFindings& findings) {
  const DrillSums sums = SumsOf(findings);
  return ObjectText([&](JsonObject& json) {
           json.Text("policy", findings.policy);
           json.Bool("kept", sums.is_kept());
           json.Number("runs", findings.rows.size() - sums.not_run);
           json.Number("kills", sums.kills);
           json.Number("broken", sums.broken);
           json.Number("parked", sums.parked);
           json.Number("not_reached", sums.not_reached);
           json.Number("not_run", sums.not_run);
           json.Number("ms", findings.took.count());
           json.Each("rows", findings.rows, [&](std::string& to, const DrillRow& row) {
             AppendRowJson(to, findings, row);
           });
           json.Each("skipped", findings.plan.skipped, [](std::string& to, const Skipped& skipped) {
             JsonObject one(to);
             one.Text("what", skipped.what);
             one.Text("why", skipped.why);
           });
         }) +
         "\n";
}

}  // namespace recourse
