#include "proxy/base/crypto/base64url.h"

#include <cstdint>

namespace recourse {
namespace {

constexpr std::string_view kBase64UrlDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int ValueOf(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '-' ? 62 : c == '_' ? 63 : -1;
}

}  // namespace

std::string ToBase64Url(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t held = 0;
  int bits = 0;
  for (const char c : bytes) {
    held = (held << 8 | static_cast<unsigned char>(c)) & 0xffff;
    for (bits += 8; bits >= 6; bits -= 6) text.push_back(kBase64UrlDigits[held >> (bits - 6) & 63]);
  }
  if (bits > 0) text.push_back(kBase64UrlDigits[held << (6 - bits) & 63]);
  return text;
}

std::optional<std::string> FromBase64Url(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t held = 0;
  int bits = 0;
  for (const char c : text) {
    const int value = ValueOf(c);
    if (value < 0) return std::nullopt;
    held = (held << 6 | static_cast<std::uint32_t>(value)) & 0xffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes.push_back(static_cast<char>(held >> bits & 0xff));
    }
  }
  const std::uint32_t rest = held & ((std::uint32_t{1} << bits) - 1);
  if (rest != 0) return std::nullopt;
  return bytes;
}

}  // namespace recourse
