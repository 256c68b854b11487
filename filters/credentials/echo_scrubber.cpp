#include "filters/credentials/echo_scrubber.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace recourse {

namespace {

// How often something may have been escaped anew, so that little is held back.
constexpr std::size_t kBackslashesMax = 8, kPercentsMax = 4;
constexpr std::size_t kCutOff = std::string_view::npos;  // the text ends before that is known

// How many bytes stand at the beginning of `text` for the character; 0: something else.
std::size_t AsHex(std::string_view text, std::size_t begin, std::size_t digits, char wanted) {
  const std::string_view hex = text.substr(std::min(begin, text.size()), digits);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
  if (!hex.empty() && (error != std::errc() || end != hex.data() + hex.size())) return 0;
  if (hex.size() < digits) return kCutOff;
  return value == static_cast<unsigned char>(wanted) ? begin + digits : 0;
}

// \/ \" \u002f, also in a text within a text.
std::size_t AsJsonEscape(std::string_view text, char wanted) {
  const std::size_t slashes = std::min(text.find_first_not_of('\\'), text.size());
  if (slashes > kBackslashesMax) return 0;
  if (slashes == text.size()) return kCutOff;
  if (text[slashes] == 'u') {
    constexpr std::size_t kDigits = 4;
    if (const auto size = AsHex(text, slashes + 1, kDigits, wanted); size != 0) return size;
  }
  const bool is_plain = std::string_view("/\"'").contains(wanted);
  return is_plain && text[slashes] == wanted ? slashes + 1 : 0;
}

// %2F, also of a url in a url: %252F.
std::size_t AsUrlEscape(std::string_view text, char wanted) {
  std::size_t begin = 1;
  for (std::size_t again = 0; again < kPercentsMax; ++again) {
    const std::size_t size = AsHex(text, begin, 2, wanted);
    if (size != 0 || text.substr(begin, 2) != "25") return size;
    begin += 2;
  }
  return 0;
}

// &#47; &#x2f; &amp;
std::size_t AsEntity(std::string_view text, char wanted) {
  constexpr std::size_t kNameMax = 10;
  static constexpr std::pair<std::string_view, char> kNames[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  const std::size_t end = text.substr(0, kNameMax).find(';');
  if (end == std::string_view::npos) return text.size() < kNameMax ? kCutOff : 0;
  std::string_view name = text.substr(1, end - 1);
  for (const auto& [known, value] : kNames) {
    if (name == known) return value == wanted ? end + 1 : 0;
  }
  if (!name.starts_with('#')) return 0;
  name.remove_prefix(1);
  const bool is_hex = name.starts_with('x') || name.starts_with('X');
  if (is_hex) name.remove_prefix(1);
  unsigned value = 0;
  (void)std::from_chars(name.data(), name.data() + name.size(), value, is_hex ? 16 : 10);
  return value == static_cast<unsigned char>(wanted) ? end + 1 : 0;
}

std::size_t AsEscape(std::string_view text, char wanted) {
  switch (text.front()) {
    case '\\':
      return AsJsonEscape(text, wanted);
    case '%':
      return AsUrlEscape(text, wanted);
    case '&':
      return AsEntity(text, wanted);
    default:
      return 0;
  }
}

constexpr std::size_t kNo = kCutOff - 1;

// How many bytes at the beginning of `text` are the secret.
std::size_t SizeOf(std::string_view secret, std::string_view text) {
  std::size_t at = 0;
  while (!secret.empty()) {
    if (at == text.size()) return kCutOff;
    const std::size_t size = AsEscape(text.substr(at), secret.front());
    const bool is_plain = text[at] == secret.front();
    secret.remove_prefix(1);
    if (is_plain && size != 0) {  // one or the other: what comes next tells
      const std::size_t plain = SizeOf(secret, text.substr(at + 1));
      if (plain < kNo) return at + 1 + plain;
      if (size == kCutOff || plain == kCutOff) return kCutOff;
    }
    if (size == kCutOff) return kCutOff;
    if (size == 0 && !is_plain) return kNo;
    at += std::max<std::size_t>(size, 1);
  }
  return at;
}

}  // namespace

EchoScrubber::EchoScrubber(std::vector<std::string> secrets) {
  for (std::string& secret : secrets) {
    if (secret.size() < limits::kScrubbedBytesMin) continue;
    for (const char first : {secret.front(), '\\', '%', '&'}) {
      begins_[static_cast<unsigned char>(first)] = true;
    }
    secrets_.push_back(std::move(secret));
  }
}

EchoScrubber::Found EchoScrubber::FindNext(std::string_view text, std::size_t from,
                                           bool ends) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    std::size_t longest = 0;
    for (const std::string& secret : secrets_) {
      const std::size_t size = SizeOf(secret, text.substr(at));
      if (size == kCutOff && !ends) return {at, 0};
      if (size < kNo) longest = std::max(longest, size);
    }
    if (longest != 0) return {at, longest};
  }
  return {text.size(), 0};
}

std::size_t EchoScrubber::Clean(std::span<char> text, bool ends) const {
  const std::string_view view(text.data(), text.size());
  Found one = FindNext(view, 0, ends);
  for (; one.size != 0; one = FindNext(view, one.at + one.size, ends)) {
    std::ranges::fill(text.subspan(one.at, one.size), '*');
  }
  return text.size() - one.at;
}

void EchoScrubber::Clean(HttpResponse& response) const {
  if (is_idle()) return;
  (void)Clean(response.reason, /*ends=*/true);
  for (auto& [name, value] : response.headers) (void)Clean(value, /*ends=*/true);
  (void)Clean(response.body, /*ends=*/true);
}

std::string_view EchoScrubber::Take(std::string_view piece, bool ends) {
  if (is_idle()) return piece;
  if (const Found one = FindNext(piece, 0, ends); held_.empty() && one.size == 0) {
    held_ = piece.substr(one.at);
    return piece.substr(0, one.at);
  }
  out_ = std::exchange(held_, {});
  out_ += piece;
  const std::size_t kept = Clean(out_, ends);
  held_ = out_.substr(out_.size() - kept);
  out_.resize(out_.size() - kept);
  return out_;
}

}  // namespace recourse
