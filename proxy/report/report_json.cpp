#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/json/json.h"
#include "proxy/report/report_text.h"

namespace recourse {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

std::string Seconds(std::int64_t ms) { return fmt::format("{}.{:03}", ms / 1000, ms % 1000); }

std::string Counts(const std::map<std::string, std::uint64_t>& counts) {
  std::string out = "{";
  for (const auto& [name, count] : counts) {
    if (out.size() > 1) out += ",";
    out += Quoted(name) + ":" + std::to_string(count);
  }
  return out + "}";
}

template <class Line, class Write>
std::string List(const std::vector<Line>& lines, Write write) {
  std::string out = "[";
  for (const Line& line : lines) {
    if (out.size() > 1) out += ",";
    out += write(line);
  }
  return out + "]";
}

std::string Example(const ReportExample& example) {
  return fmt::format(
      R"({{"first":{},"repeat":{},"seconds":{},"first_trace":{},"repeat_trace":{},"path":{}}})",
      RowIdJson(example.first), RowIdJson(example.repeat), Seconds(example.between_ms),
      Quoted(example.first_trace), Quoted(example.repeat_trace), Quoted(example.path));
}

std::string Duplicate(const DuplicateLine& line) {
  return fmt::format(R"({{"tool":{},"repeats":{},"double_effects":{},"possible_double_effects":{},)"
                     R"("seconds":{{"min":{},"median":{},"max":{}}},"verdicts":{},"examples":{}}})",
                     Quoted(line.tool), line.repeats, line.double_effects, line.possible_effects,
                     Seconds(line.min_ms), Seconds(line.median_ms), Seconds(line.max_ms),
                     Counts(line.verdicts), List(line.examples, Example));
}

std::string Unlisted(const UnlistedLine& line) {
  return fmt::format(R"({{"backend":{},"effect":{},"method":{},"path":{},"calls":{}}})",
                     Quoted(line.backend), Quoted(line.effect), Quoted(line.method),
                     Quoted(line.path), line.calls);
}

std::string Refused(const RefusedLine& line) {
  return fmt::format(R"({{"backend":{},"effect":{},"method":{},"path":{},"reason":{},"calls":{}}})",
                     Quoted(line.backend), Quoted(line.effect), Quoted(line.method),
                     Quoted(line.path), Quoted(line.reason), line.calls);
}

// What a trouble with a key means for the calls, and what to change where that is not meant.
std::string_view MeaningOf(std::string_view trouble) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kMeanings{{
      {"key-reused",
       "the same key with other arguments: 422; name what tells the calls apart in `identity`, or "
       "what may differ in `ignore`"},
      {"retried-under-another-trace",
       "known as the same call by its intent, as nobody had its answer"},
      {"again-under-another-trace",
       "a new call; if it is a repeat, say so by `across_traces: always` or `ask`"},
      {"again-after-its-window", "a new call; if it is a repeat, widen `dedupe_window`"},
      {"not-judged", "its body was larger than 8 MiB or broke off, so that nobody knows"},
  }};
  const auto* const known =
      std::ranges::find(kMeanings, trouble, &std::pair<std::string_view, std::string_view>::first);
  return known == kMeanings.end() ? "refused: see the calls that would have been, and their reasons"
                                  : known->second;
}

template <class Line>
std::vector<Line> Joined(std::vector<Line> lines, const std::vector<Line>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

}  // namespace

std::string ReportJson(const Report& report, const ReportExtras& extras) {
  std::string out = fmt::format(
      R"({{"mode":{},"since":{},"until":{},"events":{},"calls":{},"outcomes":{},"verdicts":{},)"
      R"("repeats":{},"double_effects":{},"possible_double_effects":{},)",
      Quoted(extras.mode), Quoted(extras.since), Quoted(extras.until), report.events, report.calls,
      Counts(report.outcomes), Counts(report.verdicts), report.repeats, report.double_effects,
      report.possible_effects);
  out += "\"duplicates\":" + List(report.duplicates, Duplicate);
  out += ",\"unknown\":" + List(report.unknown, [](const UnknownLine& line) {
           return fmt::format(R"({{"tool":{},"cause":{},"calls":{},"open":{},"example":{}}})",
                              Quoted(line.tool), Quoted(line.cause), line.calls, line.open,
                              RowIdJson(line.example));
         });
  out += ",\"held\":" + List(report.held, [](const HeldLine& line) {
           return fmt::format(R"({{"tool":{},"verdict":{},"calls":{},"example":{}}})",
                              Quoted(line.tool), Quoted(line.verdict), line.calls,
                              RowIdJson(line.example));
         });
  out += ",\"without_undo\":" + List(report.without_undo, [](const WithoutUndoLine& line) {
           return fmt::format(R"({{"tool":{},"calls":{},"explained":{},"why":{}}})",
                              Quoted(line.tool), line.calls, line.is_explained, Quoted(line.why));
         });
  out += ",\"unlisted\":" + List(Joined(report.unlisted, extras.unlisted_reads), Unlisted);
  out += fmt::format(R"(,"unlisted_reads_since":{},"unlisted_other":{},"refused":)",
                     Quoted(extras.started), extras.unlisted_other);
  out += List(Joined(report.refused, extras.refused), Refused) + ",\"keys\":";
  out += List(report.keys, [](const KeyLine& line) {
    return fmt::format(R"({{"tool":{},"trouble":{},"calls":{},"example":{},"means":{}}})",
                       Quoted(line.tool), Quoted(line.trouble), line.calls, RowIdJson(line.example),
                       Quoted(MeaningOf(line.trouble)));
  });
  out += ",\"differences\":" + List(extras.differences, [](const DifferenceLine& line) {
           return fmt::format(R"({{"tool":{},"field":{},"calls":{}}})", Quoted(line.tool),
                              Quoted(line.field), line.calls);
         });
  const bool is_cut = report.is_cut || extras.refused_other > 0 || extras.differences_other > 0;
  return out + fmt::format(R"(,"flow_counts":{},"not_recorded":{},"replays":{},"cut":{}}})",
                           ToJson(extras.flow_counts), extras.not_recorded, extras.replays, is_cut);
}

}  // namespace recourse
