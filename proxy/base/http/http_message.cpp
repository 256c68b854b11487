#include "proxy/base/http/http_message.h"

#include <algorithm>
#include <array>

#include "proxy/base/hex.h"
#include "proxy/base/http/control_bytes.h"

namespace recourse {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

std::string DecodeFormPart(std::string_view part) {
  std::string plain(part);
  std::replace(plain.begin(), plain.end(), '+', ' ');
  if (plain.find('%') == std::string::npos) return plain;
  std::string out;
  return PercentDecode(plain, out) ? out : plain;
}

}  // namespace

bool HaveEqualLetters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return x == y || Lower(x) == Lower(y); });
}

std::string ToLower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
  return lower;
}

const std::string* FindHeader(const Headers& headers, std::string_view name) {
  for (const auto& [field, value] : headers) {
    if (EqualsIgnoreCase(field, name)) return &value;
  }
  return nullptr;
}

void SetHeader(Headers& headers, std::string_view name, std::string_view value) {
  RemoveHeader(headers, name);
  headers.emplace_back(name, value);
}

void RemoveHeader(Headers& headers, std::string_view name) {
  std::erase_if(headers, [&](const Header& field) { return EqualsIgnoreCase(field.first, name); });
}

bool IsCredentialField(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kNames{"set-cookie",
                                                           "set-cookie2",
                                                           "cookie",
                                                           "authorization",
                                                           "authentication-info",
                                                           "x-api-key",
                                                           "api-key",
                                                           "x-auth-token",
                                                           "x-amz-security-token",
                                                           "x-shopify-access-token"};
  static constexpr std::string_view kProxy = "proxy-";
  return EqualsIgnoreCase(name.substr(0, kProxy.size()), kProxy) ||
         std::any_of(kNames.begin(), kNames.end(), [name](std::string_view credential) {
           return EqualsIgnoreCase(name, credential);
         });
}

bool IsToken(std::string_view text) {
  static constexpr auto kTable = [] {
    std::array<bool, 256> table{};
    for (const char c : std::string_view("!#$%&'*+-.^_`|~0123456789")) {
      table[static_cast<unsigned char>(c)] = true;
    }
    for (unsigned c = 'a'; c <= 'z'; ++c) table[c] = table[c - 'a' + 'A'] = true;
    return table;
  }();
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return kTable[static_cast<unsigned char>(c)]; });
}

bool IsFieldValue(std::string_view text) {
  const char* const end = text.data() + text.size();
  return FindControl(text.data(), end, text.data()) == end;
}

bool PercentDecode(std::string_view text, std::string& out) {
  out.clear();
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 3) return false;
    const int high = HexValue(text[i + 1]);
    const int low = HexValue(text[i + 2]);
    if (high < 0 || low < 0) return false;
    out.push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  return true;
}

std::string PercentEncode(std::string_view text) {
  static constexpr char kUpperDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (IsUnreserved(c)) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out.push_back('%');
    out.push_back(kUpperDigits[byte >> 4]);
    out.push_back(kUpperDigits[byte & 15]);
  }
  return out;
}

std::size_t CountPairs(std::string_view query) {
  std::size_t count = 0;
  bool is_inside = false;
  for (const char c : query) {
    count += c != '&' && !is_inside ? 1 : 0;
    is_inside = c != '&';
  }
  return count;
}

Pairs ParsePairs(std::string_view query) {
  Pairs pairs;
  while (!query.empty()) {
    const auto end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    const bool has_value = equals != std::string_view::npos;
    pairs.emplace_back(DecodeFormPart(pair.substr(0, equals)),
                       has_value ? DecodeFormPart(pair.substr(equals + 1)) : std::string());
  }
  return pairs;
}

}  // namespace recourse
