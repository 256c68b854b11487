#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <string_view>

#include "proxy/traffic/traffic_trial.h"

namespace recourse {
namespace {

constexpr std::size_t kPlacesShown = 4;
constexpr std::size_t kReasonsShown = 20;

std::string Counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string TimeOf(const Sighting& call) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(call.wall_ms / 1000)),
                     call.wall_ms % 1000);
}

std::string ListOf(const std::vector<std::string>& places) {
  std::string out;
  for (std::size_t i = 0; i < places.size() && i < kPlacesShown; ++i) {
    out += (i == 0 ? "" : ", ") + places[i];
  }
  if (places.size() > kPlacesShown)
    out += fmt::format(" and {} more", places.size() - kPlacesShown);
  return out;
}

std::string ReasonLines(std::string_view label, const std::map<std::string, std::size_t>& reasons) {
  std::string out;
  std::size_t shown = 0;
  for (const auto& [text, calls] : reasons) {
    if (shown++ == kReasonsShown) break;
    out += fmt::format("{:<8} {:>6}  {}\n", label, calls, text);
  }
  if (reasons.size() > kReasonsShown) {
    out += fmt::format("{:<8} and for {} more\n", label,
                       Counted(reasons.size() - kReasonsShown, "reason"));
  }
  return out;
}

std::string CaughtLine(const CaughtRepeats& caught, const std::vector<Sighting>& seen) {
  const TrialRepeat& one = caught.example;
  std::string line = fmt::format("caught   {:>6}  {}: ", caught.all, one.tool);
  line += caught.after_answer == 0 ? "the first one's answer had not arrived"
          : caught.after_answer == caught.all
              ? "the first one's answer had arrived"
              : fmt::format("of {} the first one's answer had arrived", caught.after_answer);
  return line + fmt::format(" (such as that of {}, of {})\n", TimeOf(seen[one.again]),
                            TimeOf(seen[one.first]));
}

std::string MergeLine(const TrialMerge& merge, const std::vector<Sighting>& seen) {
  const std::string apart = merge.arguments.empty()
                                ? std::string("they are equal, though not of one trace")
                                : "they differ in " + ListOf(merge.arguments);
  const std::string answers = merge.answers.empty() ? std::string("their answers tell nothing")
                                                    : "their answers in " + ListOf(merge.answers);
  return fmt::format(
      "MERGED   {}: {} and {} would be one call; {}, and {}; the second would be {}\n", merge.tool,
      TimeOf(seen[merge.first]), TimeOf(seen[merge.again]), apart, answers,
      merge.is_refused ? "refused (422)" : "answered with the first one's answer");
}

std::string NextLine(const TrafficTrial& trial, const std::string& policy, Mode mode) {
  if (trial.merged > 0) {
    return "next: add to `identity` what tells these calls apart (or take it out of `ignore`), and "
           "replay again\n";
  }
  return mode == Mode::kObserve
             ? "next: say mode: enforce, then recourse policy check --strict " + policy + "\n"
             : "next: recourse drill --policy " + policy + "\n";
}

}  // namespace

std::string TrialText(const TrafficTrial& trial, const std::vector<Sighting>& seen,
                      const std::string& policy, Mode mode) {
  std::string out = CountsTable(trial.tools);
  if (!out.empty()) out += '\n';
  std::size_t caught = 0, untold = 0;
  for (const auto& [tool, repeats] : trial.caught) {
    out += CaughtLine(repeats, seen);
    caught += repeats.all;
  }
  for (const auto& [tool, counts] : trial.tools) untold += counts.untold;
  out += ReasonLines("refused", trial.refused) + ReasonLines("untold", trial.untold);
  for (const TrialMerge& merge : trial.merges) out += MergeLine(merge, seen);
  if (trial.merged > trial.merges.size()) {
    out += fmt::format("MERGED   and {} more\n", trial.merged - trial.merges.size());
  }
  const std::size_t writes = trial.calls - trial.reads;
  out += fmt::format(
      "{} seen, {} to {}: {}, {}; {} would have been caught, {} of another intent merged\n",
      Counted(trial.calls, "call"), seen.empty() ? "" : TimeOf(seen.front()),
      seen.empty() ? "" : TimeOf(seen.back()), Counted(trial.reads, "read"),
      Counted(writes, "write"), Counted(caught, "repeat"), Counted(trial.merged, "call"));
  if (untold > 0 && trial.merged == 0) {
    out += fmt::format("of {} nobody knows: look whether their keys tell intents apart\n",
                       Counted(untold, "write"));
  }
  return out + NextLine(trial, policy, mode);
}

}  // namespace recourse
