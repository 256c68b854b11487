#include "proxy/console/list_query.h"

#include <algorithm>
#include <string>
#include <utility>

namespace recourse {
namespace {

// The place of a ledger that has not answered yet: where its list begins, from whichever end.
constexpr std::string_view kBegin = "begin";

}  // namespace

const std::string* LastValueOf(const Pairs& query, std::string_view name) {
  const auto found =
      std::ranges::find(query.rbegin(), query.rend(), name, &Pairs::value_type::first);
  return found == query.rend() ? nullptr : &found->second;
}

Reading ReadingOf(const ListForm& form, const Pairs& query) {
  if (LastValueOf(query, "back") != nullptr) {
    return {.cursor = "older",
            .parameter = "up_to",
            .is_backwards = true,
            .is_up_to = true,
            .has_windows = true};
  }
  if (!form.is_newest_first) return {.cursor = "next", .parameter = "after"};
  if (LastValueOf(query, "after") != nullptr) {
    return {.cursor = "newer", .parameter = "after", .is_backwards = true, .has_windows = true};
  }
  return {.cursor = "older", .parameter = "before", .has_windows = true};
}

std::string PlaceGiven(const Reading& reading, const Pairs& query, std::string_view ledger) {
  const std::string* const given = LastValueOf(query, reading.parameter);
  if (given == nullptr) return std::string(kBegin);
  const auto places = ParseLedgerCursors(*given);
  if (!places) return *given;
  const auto place = places->find(ledger);
  return place != places->end() ? place->second : std::string();
}

std::optional<Pairs> QueryForLedger(const Pairs& query, std::string_view ledger) {
  Pairs own;
  for (const auto& [name, value] : query) {
    const bool is_follow = name == kFollow;
    const auto cursors =
        IsIdParameter(name) || is_follow ? ParseLedgerCursors(value) : std::nullopt;
    if (!cursors) {
      own.emplace_back(name, value);
      continue;
    }
    const auto cursor = cursors->find(ledger);
    const bool is_there = cursor != cursors->end();
    // It had no more; who follows goes on from now.
    if (!is_there && !is_follow) return std::nullopt;
    if (is_there && !is_follow && cursor->second == kBegin) continue;
    own.emplace_back(name, is_there ? cursor->second : "now");
  }
  return own;
}

KeptPlaces PlacesOfAway(const ListForm& form, const Pairs& query,
                        std::span<const std::string_view> asked,
                        std::span<const LedgerAnswer> answers) {
  const Reading reading = ReadingOf(form, query);
  KeptPlaces kept{.cursor = reading.cursor, .places = {}};
  if (CursorsOf(reading.cursor, answers).empty()) return kept;
  for (const std::string_view ledger : asked) {
    if (std::ranges::find(answers, ledger, &LedgerAnswer::ledger) != answers.end()) continue;
    std::string place = PlaceGiven(reading, query, ledger);
    if (!place.empty()) kept.places.emplace(ledger, std::move(place));  // else it was not asked
  }
  return kept;
}

FollowState FollowedOf(const Pairs& query, std::span<const LedgerAnswer> answers) {
  FollowState state;
  const std::string* const given = LastValueOf(query, kFollow);
  auto places = given != nullptr ? ParseLedgerCursors(*given) : std::nullopt;
  if (!places) return state;
  for (const LedgerAnswer& answer : answers) {
    // Nobody knows what came before now.
    if (places->erase(std::string(answer.ledger)) == 0) state.has_gap = true;
  }
  state.kept.places = std::move(*places);
  return state;
}

}  // namespace recourse
