#include "policy/method_override.h"

#include <algorithm>
#include <array>

#include "proxy/base/http_message.h"

namespace recourse {
namespace {

// No name of an override is longer, however it is escaped.
constexpr std::size_t kNameBytesMax = 128;
constexpr std::size_t kLineBytesMax = 1024;
constexpr std::size_t kShortestName = std::string_view("_method").size();

constexpr std::array<std::string_view, 6> kOverrideNames{
    "xmethod",     "xmethodoverride",    "methodoverride",
    "xhttpmethod", "httpmethodoverride", "xhttpmethodoverride"};  // the longest one last

// "X-HTTP-Method-Override" and "x_http_method_override" come down to the same letters. A plain
// "method" is a common word; only "_method" is the override of Rails, Laravel and Express.
bool IsOverrideName(std::string_view name) {
  std::array<char, kOverrideNames.back().size()> room{};
  std::size_t size = 0;
  for (const char c : name) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    if (lower < 'a' || lower > 'z') continue;
    if (size == room.size()) return false;
    room[size++] = lower;
  }
  const std::string_view letters(room.data(), size);
  if (letters == "method") return name.starts_with('_');
  return std::find(kOverrideNames.begin(), kOverrideNames.end(), letters) != kOverrideNames.end();
}

// The same of a name as it stands in a form. Forms may hold millions of names.
bool IsEscapedOverrideName(std::string_view name) {
  if (name.size() < kShortestName) return false;
  if (name.find('%') == std::string_view::npos) return IsOverrideName(name);
  std::string plain;
  return IsOverrideName(PercentDecode(name, plain) ? std::string_view(plain) : name);
}

// The `name` parameter of a part's Content-Disposition, or empty.
std::string_view PartName(std::string_view line) {
  static constexpr std::string_view kField = "content-disposition:";
  if (!EqualsIgnoreCase(line.substr(0, kField.size()), kField)) return {};
  const std::string lower = ToLower(line);
  for (auto at = lower.find("name"); at != std::string::npos; at = lower.find("name", at + 1)) {
    auto value = lower.find_first_not_of(" \t*", at + 4);
    const bool is_parameter = lower[at - 1] == ';' || lower[at - 1] == ' ' || lower[at - 1] == '\t';
    if (!is_parameter || value == std::string::npos || lower[value] != '=') continue;
    value = lower.find_first_not_of(" \t\"", value + 1);
    if (value == std::string::npos) return {};
    return line.substr(value, std::min(lower.find_first_of("\";\r", value), lower.size()) - value);
  }
  return {};
}

}  // namespace

bool HasMethodOverride(std::string_view query) {
  if (query.empty()) return false;
  std::string plain(query.starts_with('?') ? query.substr(1) : query);
  // Some servers split at ';' too, so a name behind one counts.
  std::replace(plain.begin(), plain.end(), ';', '&');
  const auto pairs = ParsePairs(plain);
  return std::any_of(pairs.begin(), pairs.end(),
                     [](const auto& pair) { return IsOverrideName(pair.first); });
}

FormOverrideScan::FormOverrideScan(std::string_view content_type) {
  std::string_view media = content_type.substr(0, content_type.find(';'));
  while (media.ends_with(' ') || media.ends_with('\t')) media.remove_suffix(1);
  if (EqualsIgnoreCase(media, "application/x-www-form-urlencoded")) {
    kind_ = Kind::kUrlEncoded;
  } else if (EqualsIgnoreCase(media, "multipart/form-data")) {
    kind_ = Kind::kMultipart;
  }
}

bool FormOverrideScan::Feed(std::string_view piece) {
  if (kind_ == Kind::kUrlEncoded) return FeedPairs(piece);
  return kind_ == Kind::kMultipart && FeedParts(piece);
}

bool FormOverrideScan::FeedPairs(std::string_view piece) {
  for (const char c : piece) {
    const bool starts_pair = c == '&' || c == ';';
    if (starts_pair || c == '=') {
      if (counts_ && IsEscapedOverrideName(text_)) return true;
      counts_ = starts_pair;  // behind '=' comes a value, and in it perhaps another '='
      text_.clear();
    } else if (counts_) {
      text_.push_back(c);
      counts_ = text_.size() <= kNameBytesMax;
    }
  }
  return false;
}

bool FormOverrideScan::FeedParts(std::string_view piece) {
  for (const char c : piece) {
    if (line_ends_ && c != ' ' && c != '\t') text_.clear();  // no fold: the next line
    if (line_ends_) counts_ = true;
    line_ends_ = c == '\n';
    if (line_ends_ && counts_ && IsOverrideName(PartName(text_))) return true;
    if (!line_ends_ && counts_) {
      text_.push_back(c);
      counts_ = text_.size() <= kLineBytesMax;
    }
  }
  return false;
}

}  // namespace recourse
