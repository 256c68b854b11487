#include "filters/ledger/model/ledger_id.h"

#include <algorithm>
#include <cstddef>
#include <ranges>

#include "filters/ledger/model/row_id.h"

namespace recourse {
namespace {

constexpr std::size_t kLedgerNameMost = 32;

bool IsSmallLetter(char c) { return c >= 'a' && c <= 'z'; }
bool IsOfLedgerName(char c) { return IsSmallLetter(c) || (c >= '0' && c <= '9') || c == '-'; }

}  // namespace

bool IsLedgerName(std::string_view text) {
  return !text.empty() && text.size() <= kLedgerNameMost && IsSmallLetter(text.front()) &&
         std::ranges::all_of(text, IsOfLedgerName);
}

std::optional<LedgerId> SplitLedgerId(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || !IsLedgerName(text.substr(0, colon))) return std::nullopt;
  const LedgerId split{text.substr(0, colon), text.substr(colon + 1)};
  return ParseRowId(split.id) ? std::optional(split) : std::nullopt;
}

bool IsPlaceInLedgers(std::string_view text) {
  const auto is_place = [](auto part) {
    const std::string_view one(part);
    return one.find('=') != one.npos && IsLedgerName(one.substr(0, one.find('=')));
  };
  return !text.empty() && std::ranges::all_of(std::views::split(text, '~'), is_place);
}

}  // namespace recourse
