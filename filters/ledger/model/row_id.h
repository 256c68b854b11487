// The id of a row, and so of the event in it, of the operation or the flow that began with it:
// which stream of rows, and the row's number there. The embedded ledger is one stream, number 0,
// which the text of an id leaves out: `17` there, `42.17` elsewhere.
//
// Code and rows hold an id packed into one number, which keeps the order within a stream and fits a
// signed 64-bit column. It is for the ledger alone: to people and programs an id is told as text.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace recourse {

inline constexpr int kRowStreamBits = 27;
inline constexpr int kRowNumberBits = 36;
inline constexpr std::uint32_t kRowStreamMax = (std::uint32_t{1} << kRowStreamBits) - 1;
inline constexpr std::uint64_t kRowNumberMax = (std::uint64_t{1} << kRowNumberBits) - 1;

struct RowId {
  std::uint32_t stream = 0;  // at most kRowStreamMax
  std::uint64_t number = 0;  // at most kRowNumberMax

  friend constexpr auto operator<=>(const RowId&, const RowId&) = default;
};

constexpr std::uint64_t PackRowId(RowId id) {
  return std::uint64_t{id.stream} << kRowNumberBits | id.number;
}
constexpr RowId UnpackRowId(std::uint64_t packed) {
  return {.stream = static_cast<std::uint32_t>(packed >> kRowNumberBits),
          .number = packed & kRowNumberMax};
}

// "17" or "42.17".
std::string PrintRowId(std::uint64_t packed);
// In JSON: 17 or "42.17", as a packed number is more than a JavaScript number can hold.
std::string RowIdJson(std::uint64_t packed);
// What PrintRowId writes, packed; of stream 0 with leading zeros too, which earlier versions took.
// nullopt: anything else, and what is out of bounds.
std::optional<std::uint64_t> ParseRowId(std::string_view text);

}  // namespace recourse
