#include "filters/ledger/model/row_id.h"

#include <charconv>
#include <system_error>

namespace recourse {
namespace {

// Digits only: no sign, no blank.
std::optional<std::uint64_t> RowIdPart(std::string_view digits, std::uint64_t most) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [after, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || after != end || value > most) return std::nullopt;
  return value;
}

bool IsPadded(std::string_view digits) { return digits.size() > 1 && digits.front() == '0'; }

}  // namespace

std::string PrintRowId(std::uint64_t packed) {
  const RowId id = UnpackRowId(packed);
  if (id.stream == 0) return std::to_string(id.number);
  return std::to_string(id.stream) + '.' + std::to_string(id.number);
}

std::string RowIdJson(std::uint64_t packed) {
  const std::string text = PrintRowId(packed);
  return UnpackRowId(packed).stream == 0 ? text : '"' + text + '"';
}

std::optional<std::uint64_t> ParseRowId(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return RowIdPart(text, kRowNumberMax);
  const std::string_view first = text.substr(0, dot), second = text.substr(dot + 1);
  const auto stream = RowIdPart(first, kRowStreamMax), number = RowIdPart(second, kRowNumberMax);
  if (!stream || *stream == 0 || !number || IsPadded(first) || IsPadded(second)) {
    return std::nullopt;
  }
  return PackRowId({.stream = static_cast<std::uint32_t>(*stream), .number = *number});
}

}  // namespace recourse
