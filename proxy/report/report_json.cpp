#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/json/json_object.h"
#include "proxy/report/report_text.h"

namespace recourse {
namespace {

std::string Seconds(std::int64_t ms) { return fmt::format("{}.{:03}", ms / 1000, ms % 1000); }

void WriteCounts(JsonObject& json, std::string_view name,
                 const std::map<std::string, std::uint64_t>& counts) {
  JsonObject object = json.Object(name);
  for (const auto& [of, count] : counts) object.ForeignValue(of) += std::to_string(count);
}

void WriteExample(JsonObject& json, const ReportExample& example) {
  json.Raw("first", RowIdJson(example.first));
  json.Raw("repeat", RowIdJson(example.repeat));
  json.Raw("seconds", Seconds(example.between_ms));
  json.Text("first_trace", example.first_trace);
  json.Text("repeat_trace", example.repeat_trace);
  json.Text("path", example.path);
}

void WriteDuplicate(JsonObject& json, const DuplicateLine& line) {
  json.Text("tool", line.tool);
  json.Number("repeats", line.repeats);
  json.Number("double_effects", line.double_effects);
  json.Number("possible_double_effects", line.possible_effects);
  {
    JsonObject seconds = json.Object("seconds");
    seconds.Raw("min", Seconds(line.min_ms));
    seconds.Raw("median", Seconds(line.median_ms));
    seconds.Raw("max", Seconds(line.max_ms));
  }
  WriteCounts(json, "verdicts", line.verdicts);
  json.Objects("examples", line.examples, WriteExample);
}

// Of a call that no tool matches.
void WriteCall(JsonObject& json, const auto& line) {
  json.Text("backend", line.backend);
  json.Text("effect", line.effect);
  json.Text("method", line.method);
  json.Text("path", line.path);
}

// What a trouble with a key means for the calls, and what to change where that is not meant.
std::string_view MeaningOf(std::string_view trouble) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kMeanings{{
      {"key-reused",
       "the same key with other arguments: 422; name what tells the calls apart in `identity`, or "
       "what may differ in `ignore`"},
      {"retried-under-another-trace",
       "known as the same call by its intent, as nobody had its answer"},
      {"again-under-another-trace",
       "a new call; if it is a repeat, say so by `across_traces: always` or `ask`"},
      {"again-without-a-trace",
       "a new call, as nothing told that it is a repeat: send `traceparent`, or see "
       "`without_trace` "
       "(proxy/docs/agents.md)"},
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

void WriteUnlisted(JsonObject& json, const UnlistedLine& line) {
  WriteCall(json, line);
  json.Number("calls", line.calls);
}

void WriteRefused(JsonObject& json, const RefusedLine& line) {
  WriteCall(json, line);
  json.Text("reason", line.reason);
  json.Number("calls", line.calls);
}

void WriteKey(JsonObject& json, const KeyLine& line) {
  json.Text("tool", line.tool);
  json.Text("trouble", line.trouble);
  json.Number("calls", line.calls);
  json.Raw("example", RowIdJson(line.example));
  json.Text("means", MeaningOf(line.trouble));
}

void WriteDifference(JsonObject& json, const DifferenceLine& line) {
  json.Text("tool", line.tool);
  json.Text("field", line.field);
  json.Number("calls", line.calls);
}

void WriteLines(JsonObject& json, const Report& report) {
  json.Objects("duplicates", report.duplicates, WriteDuplicate);
  json.Objects("unknown", report.unknown, [](JsonObject& to, const UnknownLine& line) {
    to.Text("tool", line.tool);
    to.Text("cause", line.cause);
    to.Number("calls", line.calls);
    to.Number("open", line.open);
    to.Raw("example", RowIdJson(line.example));
  });
  json.Objects("held", report.held, [](JsonObject& to, const HeldLine& line) {
    to.Text("tool", line.tool);
    to.Text("verdict", line.verdict);
    to.Number("calls", line.calls);
    to.Raw("example", RowIdJson(line.example));
  });
  json.Objects("without_undo", report.without_undo,
               [](JsonObject& to, const WithoutUndoLine& line) {
                 to.Text("tool", line.tool);
                 to.Number("calls", line.calls);
                 to.Bool("explained", line.is_explained);
                 to.Text("why", line.why);
               });
}

}  // namespace

std::string ReportJson(const Report& report, const ReportExtras& extras) {
  return ObjectText([&](JsonObject& json) {
    json.Text("mode", extras.mode);
    json.Text("since", extras.since);
    json.Text("until", extras.until);
    json.Number("events", report.events);
    json.Number("calls", report.calls);
    WriteCounts(json, "outcomes", report.outcomes);
    WriteCounts(json, "verdicts", report.verdicts);
    json.Number("repeats", report.repeats);
    json.Number("double_effects", report.double_effects);
    json.Number("possible_double_effects", report.possible_effects);
    WriteLines(json, report);
    json.Objects("unlisted", Joined(report.unlisted, extras.unlisted_reads), WriteUnlisted);
    json.Text("unlisted_reads_since", extras.started);
    json.Number("unlisted_other", extras.unlisted_other);
    json.Objects("refused", Joined(report.refused, extras.refused), WriteRefused);
    json.Objects("keys", report.keys, WriteKey);
    json.Objects("differences", extras.differences, WriteDifference);
    json.Raw("flow_counts", ToJson(extras.flow_counts));
    json.Number("not_recorded", extras.not_recorded);
    json.Number("replays", extras.replays);
    json.Bool("cut", report.is_cut || extras.refused_other > 0 || extras.differences_other > 0);
  });
}

}  // namespace recourse
