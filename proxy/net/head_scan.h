// Small readings of bytes and single values that the head reader is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace recourse {

// The first control character other than TAB in [from, end), or `end`. DEL is one.
inline const char* FindControl(const char* from, const char* end) {
#if defined(__SSE2__)
  const __m128i last_control = _mm_set1_epi8(0x1f);
  const __m128i del = _mm_set1_epi8(0x7f);
  const __m128i tab = _mm_set1_epi8('\t');
  for (; end - from >= 16; from += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes);
    const __m128i found = _mm_or_si128(_mm_andnot_si128(_mm_cmpeq_epi8(bytes, tab), control),
                                       _mm_cmpeq_epi8(bytes, del));
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(found));
    if (mask != 0) return from + __builtin_ctz(mask);
  }
#endif
  for (; from != end; ++from) {
    const auto byte = static_cast<unsigned char>(*from);
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) break;
  }
  return from;
}

bool IsAscii(std::string_view text);

// Without SP and HTAB at both ends.
std::string_view TrimBlanks(std::string_view text);

// One to nineteen digits without a leading zero, which always fit. False otherwise.
bool ReadLength(std::string_view text, std::uint64_t& length);

// True when `value` has a comma outside a quoted string.
bool HasListComma(std::string_view value);

// N of `timeout=N` in a Keep-Alive value, at most a day; -1 when it is not there.
int KeepAliveTimeout(std::string_view value);

}  // namespace recourse
