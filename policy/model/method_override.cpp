#include "policy/model/method_override.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "policy/uri/twins.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, 6> kOverrideNames{
    "xmethod",     "xmethodoverride",    "methodoverride",
    "xhttpmethod", "httpmethodoverride", "xhttpmethodoverride"};

constexpr std::array<std::string_view, 12> kOverrideFields{
    "x-http-method",     "x-http-method-override", "x-method",
    "x-method-override", "x-original-uri",         "x-original-url",
    "x-override-url",    "x-rewrite-url",          "script-name",
    "path-info",  // CGI's own, which gunicorn takes from a field
    "x-script-name",     "x-traversal-path"};

bool IsTokenByte(char c) { return c == '-' || IsToken(std::string_view(&c, 1)); }

// Of "name*0*" what stands behind "name".
struct Suffix {
  bool is_piece = false, is_extended = false;
};
Suffix TakeSuffix(std::string_view& rest) {
  Suffix suffix;
  while (!rest.empty() && (rest.front() == '*' || (rest.front() >= '0' && rest.front() <= '9'))) {
    if (rest.front() == '*') suffix.is_extended = true;
    if (rest.front() != '*') suffix.is_piece = true;
    rest.remove_prefix(1);
  }
  return suffix;
}

// What readers take for the value at the front of `text`: one to whom its quote is one, and one to
// whom it is not.
std::array<std::string, 2> ValuesAt(std::string_view text) {
  std::array<std::string, 2> values;
  const auto is_quote = [](char c) { return c == '"' || c == '\''; };
  if (!text.empty() && is_quote(text.front())) {
    for (std::size_t i = 1; i < text.size() && text[i] != text.front(); ++i) {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      values[0].push_back(text[i]);
    }
  }
  std::string_view bare = text.substr(0, text.find_first_of("; \t"));
  while (!bare.empty() && is_quote(bare.front())) bare.remove_prefix(1);
  while (!bare.empty() && is_quote(bare.back())) bare.remove_suffix(1);
  values[1] = bare;
  return values;
}

// The letters behind every "charset=" of a content type.
std::vector<std::string> CharsetsOf(std::string_view content_type) {
  std::vector<std::string> charsets;
  const std::string lower = ToLower(content_type);
  constexpr std::string_view kCharset = "charset";
  for (auto at = lower.find(kCharset); at != std::string::npos; at = lower.find(kCharset, at + 1)) {
    // Of `charset*=` and `charset*0=` nobody knows what a reader makes.
    const auto begin = lower.find_first_not_of(" \t=\"'", at + kCharset.size());
    if (begin == std::string::npos) continue;
    charsets.push_back(lower.substr(begin, lower.find_first_of("; \t\"',", begin) - begin));
  }
  return charsets;
}

constexpr std::uint8_t kPlainByte = 1, kBeginsMethod = 2;
constexpr auto kBytesInNames = [] {
  std::array<std::uint8_t, 256> classes{};
  for (const char c : std::string_view("-_0123456789")) {
    classes[static_cast<unsigned char>(c)] = kPlainByte;
  }
  for (unsigned c = 'a'; c <= 'z'; ++c) classes[c] = classes[c - 'a' + 'A'] = kPlainByte;
  classes['m'] |= kBeginsMethod;
  classes['M'] |= kBeginsMethod;
  return classes;
}();

// Quickly says of most names that they are none: of those that read alike everywhere, and in whose
// letters every override's "method" is not found.
bool IsPlainAndOther(std::string_view name) {
  constexpr std::string_view kMethod = "method";
  std::uint8_t all = kPlainByte, any = 0;
  for (const char c : name) {
    const std::uint8_t classes = kBytesInNames[static_cast<unsigned char>(c)];
    all &= classes;
    any |= classes;
  }
  if (all == 0) return false;
  if ((any & kBeginsMethod) == 0) return true;
  std::size_t found = 0;
  for (const char c : name) {
    const char lower = static_cast<char>(c | 0x20);
    if (lower < 'a' || lower > 'z' || found == kMethod.size()) continue;
    found = lower == kMethod[found] ? found + 1 : (lower == kMethod[0] ? 1 : 0);
  }
  return found < kMethod.size();
}

}  // namespace

// "X-HTTP-Method-Override" and "x_http_method_override" come down to the same letters. A plain
// "method" is a common word; only "_method", or what a reader takes for it, is the override of
// Rails, Laravel and Express, and "_HttpMethod" that of Salesforce.
bool IsOverrideName(std::string_view name) {
  if (IsPlainAndOther(name)) return false;
  const std::string skeleton = SkeletonOf(NameIn::kForm, RootOf(name));
  std::string letters;
  std::ranges::copy_if(skeleton, std::back_inserter(letters),
                       [](char c) { return c >= 'a' && c <= 'z'; });
  if (letters == "method" || letters == "httpmethod") return skeleton.starts_with('_');
  return std::ranges::find(kOverrideNames, letters) != kOverrideNames.end();
}

bool IsOverrideField(std::string_view name) {
  return std::ranges::find(kOverrideFields, name) != kOverrideFields.end();
}

bool HasMethodOverride(std::string_view query) {
  if (query.empty()) return false;
  std::string plain(query.starts_with('?') ? query.substr(1) : query);
  // Some servers split at ';' too, so a name behind one counts.
  std::replace(plain.begin(), plain.end(), ';', '&');
  const auto pairs = ParsePairs(plain);
  return std::any_of(pairs.begin(), pairs.end(),
                     [](const auto& pair) { return IsOverrideName(pair.first); });
}

std::optional<std::vector<std::string>> PartNames(std::string_view line) {
  const std::string_view field = line.substr(0, line.find(':'));
  std::string letters;
  for (const char c : ToLower(field)) {
    if (c >= 'a' && c <= 'z') letters.push_back(c);
  }
  std::vector<std::string> names;
  if (letters != "contentdisposition" || field.size() == line.size()) return names;
  const std::string lower = ToLower(line);
  std::array<std::string, 2> pieces;
  std::size_t count = 0;
  for (auto at = lower.find("name"); at != std::string::npos; at = lower.find("name", at + 1)) {
    std::string_view rest = line.substr(at + 4);
    const Suffix suffix = TakeSuffix(rest);
    rest = TrimBlanks(rest);
    if (IsTokenByte(lower[at - 1]) || !rest.starts_with('=')) continue;
    if (++count > limits::kPartNamesMax) return std::nullopt;
    const auto values = ValuesAt(TrimBlanks(rest.substr(1)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::string_view value = values[i];
      if (suffix.is_extended) value.remove_prefix(value.rfind('\'') + 1);
      std::string decoded;
      names.push_back(PercentDecode(value, decoded) ? decoded : std::string(value));
      if (suffix.is_piece) pieces[i] += names.back();
    }
  }
  names.insert(names.end(), pieces.begin(), pieces.end());
  std::erase(names, std::string());
  return names;
}

bool IsUtf8Form(std::string_view content_type) {
  return std::ranges::all_of(CharsetsOf(content_type), [](const std::string& charset) {
    return charset == "utf-8" || charset == "utf8" || charset == "us-ascii";
  });
}

bool IsAsciiForm(std::string_view content_type) {
  static constexpr std::array<std::string_view, 11> kAscii{
      "ascii", "iso-8859-", "iso8859", "latin", "windows-125", "cp125",
      "koi8-", "gb",        "big5",    "euc-",  "shift_jis"};
  return IsUtf8Form(content_type) ||
         std::ranges::all_of(CharsetsOf(content_type), [](const std::string& charset) {
           return std::ranges::any_of(
               kAscii, [&](std::string_view name) { return charset.starts_with(name); });
         });
}

}  // namespace recourse
