// Hexadecimal digits.
#pragma once

#include <cstddef>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace recourse {

inline constexpr char kHexDigits[] = "0123456789abcdef";

// The value of a digit of either case; -1: it is none.
constexpr int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Digits and the letters a to f, sixteen at a time: every call has a trace.
inline bool IsLowerHex(std::string_view text) {
  std::size_t at = 0;
#if defined(__SSE2__)
  // Bytes are compared as signed ones, so each range is moved to the least value first.
  const auto is_in = [](__m128i bytes, char first, int count) {
    const __m128i moved = _mm_add_epi8(bytes, _mm_set1_epi8(static_cast<char>(-128 - first)));
    return _mm_cmplt_epi8(moved, _mm_set1_epi8(static_cast<char>(-128 + count)));
  };
  for (; text.size() - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at));
    const __m128i hex = _mm_or_si128(is_in(bytes, '0', 10), is_in(bytes, 'a', 6));
    if (_mm_movemask_epi8(hex) != 0xffff) return false;
  }
#endif
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) return false;
  }
  return true;
}

}  // namespace recourse
