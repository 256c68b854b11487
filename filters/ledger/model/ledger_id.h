// An id at a console of several ledgers: that of the ledger, with its name before it, "eu:42.17".
#pragma once

#include <optional>
#include <string_view>

namespace recourse {

struct LedgerId {
  std::string_view ledger, id;
};
// 1 to 32 of a-z, 0-9 and '-', the first one a letter.
bool IsLedgerName(std::string_view text);
// nullopt: it is no such id.
std::optional<LedgerId> SplitLedgerId(std::string_view text);
// A place in each of several, where a list goes on: "eu=42.17~us=7.9".
bool IsPlaceInLedgers(std::string_view text);

}  // namespace recourse
