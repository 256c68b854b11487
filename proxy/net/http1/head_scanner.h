// Small readings of bytes and single values that the head reader is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace recourse {

#if defined(__SSE2__)
// Which of the bytes are letters, digits or hyphens: a bit for each.
inline unsigned PlainBytes(__m128i bytes) {
  // Bytes are compared as signed ones, so each range is moved to the least value first.
  const auto is_in = [](__m128i all, char first, int count) {
    const __m128i moved = _mm_add_epi8(all, _mm_set1_epi8(static_cast<char>(-128 - first)));
    return _mm_cmplt_epi8(moved, _mm_set1_epi8(static_cast<char>(-128 + count)));
  };
  const __m128i letter = is_in(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 26);
  const __m128i digit = is_in(bytes, '0', 10);
  const __m128i hyphen = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('-'));
  const __m128i plain = _mm_or_si128(letter, _mm_or_si128(digit, hyphen));
  return static_cast<unsigned>(_mm_movemask_epi8(plain));
}
#endif

// Skips letters, digits and hyphens, which most names of fields are made of. May stop before others
// of them.
inline const char* SkipPlain(const char* from, [[maybe_unused]] const char* end) {
#if defined(__SSE2__)
  if (end - from >= 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    // The bit behind the last byte stands for one that is not plain.
    return from + __builtin_ctz(~PlainBytes(bytes));
  }
#endif
  return from;
}

inline bool IsAscii(std::string_view text) {
  // Many at a time, the last ones overlapping: every call has a traceparent or a token to look
  // through.
  const char* at = text.data();
  const char* const end = at + text.size();
#if defined(__SSE2__)
  const auto has_high_bits = [](const char* from) {
    return _mm_movemask_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))) != 0;
  };
  if (text.size() >= 16) {
    for (; end - at > 16; at += 16) {
      if (has_high_bits(at)) return false;
    }
    return !has_high_bits(end - 16);
  }
#endif
  std::uint64_t high_bits = 0, word;
  if (text.size() < sizeof word) {
    for (; at != end; ++at) high_bits |= static_cast<unsigned char>(*at);
  } else {
    for (; at < end - sizeof word; at += sizeof word) {
      std::memcpy(&word, at, sizeof word);
      high_bits |= word;
    }
    std::memcpy(&word, end - sizeof word, sizeof word);
    high_bits |= word;
  }
  return (high_bits & 0x8080'8080'8080'8080) == 0;
}

// True for a name that a server which reads '_' as '-' takes for a field that says where the body
// ends: no mode can pass that on.
bool IsFramingTwin(std::string_view name);

// IsAuthority, which is known of the hosts that were named last.
bool IsHostField(std::string_view value);

// One to nineteen digits without a leading zero, which always fit. False otherwise.
bool ReadLength(std::string_view text, std::uint64_t& length);

// True when `value` has a comma outside a quoted string.
bool HasListComma(std::string_view value);

// N of `timeout=N` in a Keep-Alive value, at most a day; -1 when it is not there.
int KeepAliveTimeout(std::string_view value);

}  // namespace recourse
