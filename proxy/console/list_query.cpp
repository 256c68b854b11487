#include "proxy/console/list_query.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "proxy/admin/api/query_params.h"

namespace recourse {
namespace {

// The place of a ledger that has not answered yet: where its list begins, from whichever end.
constexpr std::string_view kBegin = "begin";

// The last one of that name, as a ledger takes it.
const std::string* ValueOf(const Pairs& query, std::string_view name) {
  const auto found =
      std::ranges::find(query.rbegin(), query.rend(), name, &Pairs::value_type::first);
  return found == query.rend() ? nullptr : &found->second;
}

// The cursor that reads on as `query` reads, and the parameter that takes it.
std::pair<std::string_view, std::string_view> CursorOf(const ListForm& form, const Pairs& query) {
  if (ValueOf(query, "back") != nullptr) return {"older", "up_to"};
  if (!form.is_newest_first) return {"next", "after"};
  if (ValueOf(query, "after") != nullptr) return {"newer", "after"};
  return {"older", "before"};
}

}  // namespace

std::optional<Pairs> QueryForLedger(const Pairs& query, std::string_view ledger,
                                    std::size_t ledgers) {
  Pairs own;
  for (const auto& [name, value] : query) {
    std::uint64_t limit = 0;
    if (name == "limit" && ParseNumber(value, limit)) {
      own.emplace_back(name, std::to_string(std::max<std::uint64_t>(1, limit / ledgers)));
      continue;
    }
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
  const auto [cursor, parameter] = CursorOf(form, query);
  KeptPlaces kept{.cursor = cursor, .places = {}};
  if (CursorsOf(cursor, answers).empty()) return kept;
  const std::string* const given = ValueOf(query, parameter);
  const auto places = given != nullptr ? ParseLedgerCursors(*given) : std::nullopt;
  for (const std::string_view ledger : asked) {
    if (std::ranges::find(answers, ledger, &LedgerAnswer::ledger) != answers.end()) continue;
    const auto place = places ? places->find(ledger) : LedgerCursors::const_iterator();
    if (places && place == places->end()) continue;  // it was not asked
    kept.places.emplace(ledger, places             ? place->second
                                : given != nullptr ? *given
                                                   : std::string(kBegin));
  }
  return kept;
}

FollowState FollowedOf(const Pairs& query, std::span<const LedgerAnswer> answers) {
  FollowState state;
  const std::string* const given = ValueOf(query, kFollow);
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
