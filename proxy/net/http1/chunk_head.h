// The framing of a chunked body that is written (RFC 9112 section 7.1).
#pragma once

#include <charconv>
#include <cstddef>
#include <string_view>

namespace recourse {

inline constexpr std::string_view kCrlf = "\r\n", kLastChunk = "0\r\n\r\n";

// "1a2b\r\n", before so many bytes of data and a kCrlf.
inline std::string_view ChunkHead(std::size_t size, char (&out)[24]) {
  char* const end = std::to_chars(out, out + 20, size, 16).ptr;
  end[0] = '\r';
  end[1] = '\n';
  return {out, static_cast<std::size_t>(end - out) + 2};
}

}  // namespace recourse
