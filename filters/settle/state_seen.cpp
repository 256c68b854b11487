#include "filters/settle/state_seen.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "filters/call/call_values.h"
#include "filters/call/snapshots.h"
#include "filters/settle/absence.h"
#include "policy/undo/put_back.h"

namespace recourse {
namespace {

bool IsWithin(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

bool IsSameValue(const std::optional<Json>& a, const std::optional<Json>& b) {
  return a && b && CanonicalJson(*a) == CanonicalJson(*b);
}

// Whether all conditions over an answer hold in what is kept of one.
Stands HoldIn(const std::vector<Condition>& conditions, const Snapshot& state) {
  Stands stands = Stands::kThere;
  for (Condition condition : conditions) {
    const std::optional<Json> value = KeptAt(state, condition.left.name);
    CallValues values;
    values.answer_body = value ? &*value : nullptr;
    condition.left.name.clear();
    std::optional<bool> holds = value ? Evaluate(condition, values) : std::nullopt;
    // Null is known to be another value than any that is one.
    const bool is_null = value && value->kind == Json::Kind::kNull;
    if (!holds && is_null && condition.op == Condition::Op::kEqual) holds = false;
    if (holds && !*holds) return Stands::kNotThere;
    if (!holds) stands = Stands::kUnclear;
  }
  return stands;
}

// What only says which thing is written to.
bool NamesTarget(const Tool& tool, const std::string& place) {
  const auto places = SelectorsOf(tool.before->request);
  return std::ranges::any_of(places, [&](const Selector& one) {
    return one.source == Selector::Source::kBody && one.name == place;
  });
}

// Where that is kept which a call sets at `place`; nullopt: nowhere.
std::optional<std::string> KeptPlaceOf(const Tool& tool, const std::string& place) {
  for (const KeptArgument& one : KeptArguments(tool)) {
    if (IsWithin(place, one.argument)) return one.place + place.substr(one.argument.size());
  }
  const bool is_kept = std::ranges::any_of(
      tool.before->keep, [&](const Selector& kept) { return IsWithin(place, kept.name); });
  return is_kept && !tool.is_named() ? std::optional(place) : std::nullopt;
}

// Whether all that the call sets is there. One place that is not says enough; what cannot be seen
// may be there or not.
Stands SetIn(const Tool& tool, const StateKept& kept, const Snapshot& state, bool is_before) {
  if (kept.ours.is_gone) return state.is_gone ? Stands::kThere : Stands::kNotThere;
  if (state.is_gone) return Stands::kUnclear;
  bool sees_any = false, sees_all = true;
  for (const std::string& place : PlacesNoted(kept.request.headers)) {
    if (!place.empty() && NamesTarget(tool, place)) continue;
    const auto at = place.empty() ? std::nullopt : KeptPlaceOf(tool, place);
    const std::optional<Json> wanted = at ? KeptAt(kept.ours, *at) : std::nullopt;
    // Where nothing else is planned than what was there, the call's word is not understood.
    if (!wanted || IsSameValue(wanted, KeptAt(kept.before, *at))) {
      sees_all = false;
      continue;
    }
    const std::optional<Json> shown = KeptAt(state, *at);
    // Not everything is ever shown; but what shows by now, and did not before, is new.
    if (!shown && !is_before) {
      sees_all = false;
    } else if (!IsSameValue(wanted, shown)) {
      return Stands::kNotThere;
    } else {
      sees_any = true;
    }
  }
  return sees_any && sees_all ? Stands::kThere : Stands::kUnclear;
}

}  // namespace

ProbeVerdict VerdictOf(const StateSeen& seen) {
  const bool is_denied = seen.is_untouched || seen.is_said_absent;
  if (seen.now == Stands::kThere && seen.before == Stands::kNotThere && !is_denied) {
    return ProbeVerdict::kPresent;
  }
  return seen.now == Stands::kNotThere && is_denied ? ProbeVerdict::kAbsent
                                                    : ProbeVerdict::kNothing;
}

StateSeen SeenOf(const Tool& tool, const Event& uncertain, const Result<Answer>& result) {
  StateSeen seen;
  if (!uncertain.state || !tool.before || !tool.settle) return seen;
  const StateKept& kept = *uncertain.state;
  const SettleRule& rule = *tool.settle;
  const auto now = ReadSnapshot(*tool.before, result, rule.reached.empty() && kept.ours.is_gone);
  if (!now) return seen;
  const auto stands = [&](const Snapshot& state, bool is_before) {
    return rule.reached.empty() ? SetIn(tool, kept, state, is_before) : HoldIn(rule.reached, state);
  };
  seen.before = stands(kept.before, true);
  seen.now = stands(*now, false);
  // An earlier attempt, sent again under its key, may have come before what was read last.
  const bool is_only = uncertain.attempt <= 1 || uncertain.dedupe_domain == 0;
  seen.is_untouched = is_only && !now->version.empty() && now->version == kept.before.version &&
                      HaveSamePlaces(kept.before, *now);
  seen.is_said_absent = SaysAbsent(rule, *result);
  return seen;
}

ProbeReading JudgeState(const Tool& tool, const Event& uncertain, const Result<Answer>& result) {
  ProbeReading reading;
  reading.verdict = VerdictOf(SeenOf(tool, uncertain, result));
  reading.is_state = reading.verdict == ProbeVerdict::kPresent;
  return reading;
}

}  // namespace recourse
