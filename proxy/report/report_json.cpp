#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/json/json_shape.h"
#include "proxy/report/report_text.h"

namespace recourse {
namespace {

std::string Seconds(std::int64_t ms) { return fmt::format("{}.{:03}", ms / 1000, ms % 1000); }

void WriteCounts(JsonObject& json, std::string_view name,
                 const std::map<std::string, std::uint64_t>& counts) {
  JsonObject object = json.Object(name);
  for (const auto& [of, count] : counts) object.ForeignValue(of) += std::to_string(count);
}

namespace report_members {

using member::Bool, member::Make, member::Number, member::Objects, member::Raw, member::Text;

constexpr std::string_view kNumber = R"({"type": "number"})";

template <auto kGet>
constexpr auto Id(std::string_view name) {
  return Make({name, "Id"}, [](JsonObject& json, std::string_view as, const auto& of) {
    json.Raw(as, RowIdJson(std::invoke(kGet, of)));
  });
}
template <auto kGet>
constexpr auto InSeconds(std::string_view name) {
  return Make({name, kNumber}, [](JsonObject& json, std::string_view as, const auto& of) {
    json.Raw(as, Seconds(std::invoke(kGet, of)));
  });
}
template <auto kGet>
constexpr auto Counts(std::string_view name, std::string_view text = "") {
  return Make(
      {name, R"({"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}})",
       text},
      [](JsonObject& json, std::string_view as, const auto& of) {
        WriteCounts(json, as, std::invoke(kGet, of));
      });
}

constexpr JsonMember<ReportExample> kExample[] = {
    Id<&ReportExample::first>("first"),
    Id<&ReportExample::repeat>("repeat"),
    InSeconds<&ReportExample::between_ms>("seconds"),
    Text<&ReportExample::first_trace>("first_trace"),
    Text<&ReportExample::repeat_trace>("repeat_trace"),
    Text<&ReportExample::path>("path"),
};
constexpr JsonMember<DuplicateLine> kSeconds[] = {
    InSeconds<&DuplicateLine::min_ms>("min"),
    InSeconds<&DuplicateLine::median_ms>("median"),
    InSeconds<&DuplicateLine::max_ms>("max"),
};
constexpr JsonMember<DuplicateLine> kDuplicate[] = {
    Text<&DuplicateLine::tool>("tool"),
    Number<&DuplicateLine::repeats>("repeats"),
    Number<&DuplicateLine::double_effects>("double_effects"),
    Number<&DuplicateLine::possible_effects>("possible_double_effects"),
    member::Object<[](const DuplicateLine& of) -> const auto& { return of; }, kSeconds>("seconds"),
    Counts<&DuplicateLine::verdicts>("verdicts"),
    Objects<&DuplicateLine::examples, kExample>("examples"),
};
constexpr JsonMember<UnknownLine> kUnknown[] = {
    Text<&UnknownLine::tool>("tool"),     Text<&UnknownLine::cause>("cause"),
    Number<&UnknownLine::calls>("calls"), Number<&UnknownLine::open>("open"),
    Id<&UnknownLine::example>("example"),
};
constexpr JsonMember<HeldLine> kHeld[] = {
    Text<&HeldLine::tool>("tool"),
    member::Word<&HeldLine::verdict>("verdict",
                                     R"({"type": "string", "enum": ["would_hold", "would_ask"]})"),
    Number<&HeldLine::calls>("calls"),
    Id<&HeldLine::example>("example"),
};
constexpr JsonMember<WithoutUndoLine> kWithoutUndo[] = {
    Text<&WithoutUndoLine::tool>("tool"),
    Number<&WithoutUndoLine::calls>("calls"),
    Bool<&WithoutUndoLine::is_explained>("explained"),
    Text<&WithoutUndoLine::why>("why"),
};
constexpr JsonMember<UnlistedLine> kUnlisted[] = {
    Text<&UnlistedLine::backend>("backend"), Text<&UnlistedLine::effect>("effect"),
    Text<&UnlistedLine::method>("method"),   Text<&UnlistedLine::path>("path"),
    Number<&UnlistedLine::calls>("calls"),
};
constexpr JsonMember<RefusedLine> kRefused[] = {
    Text<&RefusedLine::backend>("backend"),
    Text<&RefusedLine::effect>("effect"),
    Text<&RefusedLine::method>("method"),
    Text<&RefusedLine::path>("path"),
    Text<&RefusedLine::reason>("reason", "A slug, and what it means here"),
    Number<&RefusedLine::calls>("calls"),
};

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

constexpr JsonMember<KeyLine> kKey[] = {
    Text<&KeyLine::tool>("tool"),
    Text<&KeyLine::trouble>("trouble"),
    Number<&KeyLine::calls>("calls"),
    Id<&KeyLine::example>("example"),
    Text<[](const KeyLine& of) { return MeaningOf(of.trouble); }>(
        "means", "For people: what it means, and what to change"),
};
constexpr JsonMember<DifferenceLine> kDifference[] = {
    Text<&DifferenceLine::tool>("tool"),
    Text<&DifferenceLine::field>(
        "field", "Its name, such as header.x-user-id, query.page or body#/note; never a value"),
    Number<&DifferenceLine::calls>("calls"),
};

template <class Line>
std::vector<Line> Joined(std::vector<Line> lines, const std::vector<Line>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

struct Told {
  const Report& report;
  const ReportExtras& extras;
};
template <auto kGet>
constexpr auto kOf = [](const Told& of) -> decltype(auto) { return std::invoke(kGet, of.report); };
template <auto kGet>
constexpr auto kBeside =
    [](const Told& of) -> decltype(auto) { return std::invoke(kGet, of.extras); };

constexpr JsonMember<Told> kReport[] = {
    Text<kBeside<&ReportExtras::mode>>("mode", "",
                                       R"({"type": "string", "enum": ["enforce", "observe"]})"),
    Text<kBeside<&ReportExtras::since>>("since", "", "Time"),
    Text<kBeside<&ReportExtras::until>>("until", "", "Time"),
    Number<kOf<&Report::events>>("events"),
    Number<kOf<&Report::calls>>("calls"),
    Counts<kOf<&Report::outcomes>>("outcomes", "Operations by phase"),
    Counts<kOf<&Report::verdicts>>("verdicts"),
    Number<kOf<&Report::repeats>>("repeats"),
    Number<kOf<&Report::double_effects>>("double_effects"),
    Number<kOf<&Report::possible_effects>>("possible_double_effects"),
    Objects<kOf<&Report::duplicates>, kDuplicate>("duplicates"),
    Objects<kOf<&Report::unknown>, kUnknown>("unknown"),
    Objects<kOf<&Report::held>, kHeld>(
        "held", "", "Observe mode: calls that enforce would have asked a human about first"),
    Objects<kOf<&Report::without_undo>, kWithoutUndo>("without_undo"),
    Objects<[](const Told& of) { return Joined(of.report.unlisted, of.extras.unlisted_reads); },
            kUnlisted>("unlisted"),
    Text<kBeside<&ReportExtras::started>>("unlisted_reads_since", "", "Time"),
    Number<kBeside<&ReportExtras::unlisted_other>>("unlisted_other"),
    Objects<[](const Told& of) { return Joined(of.report.refused, of.extras.refused); }, kRefused>(
        "refused", "",
        "Observe mode: calls that enforce would have refused; reads are counted since "
        "unlisted_reads_since"),
    Objects<kOf<&Report::keys>, kKey>("keys"),
    Objects<kBeside<&ReportExtras::differences>, kDifference>(
        "differences", "",
        "Observe mode, since unlisted_reads_since: calls that count as one with an earlier one, by "
        "a field in which they differ from it"),
    Raw<[](const Told& of) { return ToJson(of.extras.flow_counts); }>("flow_counts", "FlowCounts"),
    Number<kBeside<&ReportExtras::not_recorded>>("not_recorded"),
    Number<kBeside<&ReportExtras::replays>>(
        "replays",
        "Repeats that were answered from the ledger since unlisted_reads_since; they leave no row"),
    Bool<[](const Told& of) {
      return of.report.is_cut || of.extras.refused_other > 0 || of.extras.differences_other > 0;
    }>("cut", "A bound was reached: the counts are right, the lists are not complete"),
};

}  // namespace report_members
}  // namespace

std::string ReportJson(const Report& report, const ReportExtras& extras) {
  return ObjectText(
      [&](JsonObject& json) { WriteMembers(json, report_members::kReport, {report, extras}); });
}

JsonShape ReportShape() { return {"Report", "", DocsOf(report_members::kReport)}; }

}  // namespace recourse
