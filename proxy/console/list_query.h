// What each ledger of a console is asked for where all of them are, and where the next page of all
// goes on. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "proxy/base/http/http_message.h"
#include "proxy/console/merge.h"

namespace recourse {

inline constexpr std::string_view kFollow = "follow";

// Of `query` that part which is for one of so many ledgers; nullopt: it had no more.
std::optional<Pairs> QueryForLedger(const Pairs& query, std::string_view ledger,
                                    std::size_t ledgers);

// Places of those that were asked for a page and did not answer, so that it is read on from there
// when they are back; none where no other has more: who reads to the end would not come to it.
KeptPlaces PlacesOfAway(const ListForm& form, const Pairs& query,
                        std::span<const std::string_view> asked,
                        std::span<const LedgerAnswer> answers);
// Of who follows: places of all that did not answer now.
FollowState FollowedOf(const Pairs& query, std::span<const LedgerAnswer> answers);

}  // namespace recourse
