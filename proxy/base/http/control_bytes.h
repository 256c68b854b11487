// Looks for control characters, many bytes at a time.
#pragma once

#include <cstddef>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace recourse {

#if defined(__SSE2__)
// Which of sixteen bytes are control characters other than TAB: a bit for each. DEL is one.
inline unsigned ControlBytes(const char* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
  const __m128i is_tab = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'));
  const __m128i is_del = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
  return static_cast<unsigned>(
      _mm_movemask_epi8(_mm_or_si128(_mm_andnot_si128(is_tab, control), is_del)));
}
#endif

// The first of them in [from, end), or `end`. What is at `begin` and behind it may be read, too.
inline const char* FindControl(const char* from, const char* end,
                               [[maybe_unused]] const char* begin) {
#if defined(__SSE2__)
  for (; end - from >= 16; from += 16) {
    const unsigned mask = ControlBytes(from);
    if (mask != 0) return from + __builtin_ctz(mask);
  }
  if (end - begin >= 16) {
    // The last sixteen, of which some were looked at already, or come before.
    const char* const last = end - 16;
    const unsigned mask = ControlBytes(last) >> (from - last);
    return mask == 0 ? end : from + __builtin_ctz(mask);
  }
#endif
  for (; from != end; ++from) {
    const auto byte = static_cast<unsigned char>(*from);
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) break;
  }
  return from;
}

}  // namespace recourse
