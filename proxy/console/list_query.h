// What each ledger of a console is asked for where all of them are, and where the next page of all
// goes on. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "proxy/base/http/http_message.h"
#include "proxy/console/merge.h"

namespace recourse {

inline constexpr std::string_view kFollow = "follow";

// The last one of that name, as a ledger takes it; null: there is none.
const std::string* LastValueOf(const Pairs& query, std::string_view name);

// How a list is read on: the cursor of its page, and the parameter that takes it.
struct Reading {
  std::string_view cursor, parameter;
  bool is_backwards = false;  // what is listed last is read first
  bool is_up_to = false;      // from that row on, and not from the one after it
  bool has_windows = false;   // a page without rows may have more behind it
};
Reading ReadingOf(const ListForm& form, const Pairs& query);
// From where it was asked to read.
std::string PlaceGiven(const Reading& reading, const Pairs& query, std::string_view ledger);

// Of `query` that part which is for one of the ledgers; nullopt: it had no more.
std::optional<Pairs> QueryForLedger(const Pairs& query, std::string_view ledger);

// Places of those that were asked for a page and did not answer, so that it is read on from there
// when they are back; none where no other has more: who reads to the end would not come to it.
KeptPlaces PlacesOfAway(const ListForm& form, const Pairs& query,
                        std::span<const std::string_view> asked,
                        std::span<const LedgerAnswer> answers);
// Of who follows: places of all that did not answer now.
FollowState FollowedOf(const Pairs& query, std::span<const LedgerAnswer> answers);

}  // namespace recourse
