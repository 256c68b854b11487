// JSON that is written at every request: an object in a fixed buffer. The quotes around a name are
// one text with it, whose size the compiler knows.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>

#include "proxy/base/json/json.h"
#include "proxy/base/short_text.h"

namespace recourse {

template <std::size_t kSize>
struct JsonName {
  consteval JsonName(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
  char text[kSize]{};
};

// `,"name":`, and the quote that begins a text.
template <JsonName kName>
inline constexpr auto kMemberStart = [] {
  std::array<char, sizeof kName.text + 4> start{',', '"'};
  auto* const end = std::copy_n(kName.text, sizeof kName.text - 1, start.begin() + 2);
  std::copy_n("\":\"", 3, end);
  return start;
}();

// Members that follow others, and whole texts that somebody else has written. What does not fit is
// cut, which only a bug could cause.
class JsonLine {
 public:
  [[gnu::always_inline]] void Raw(std::string_view text) {
    if (text.size() > sizeof buffer_ - size_) [[unlikely]]
      return RawThatIsCut(text);
    // Apart from that, so that the size of a literal is known here, and nothing is called.
    std::memcpy(buffer_ + size_, text.data(), text.size());
    size_ += text.size();
  }
  template <std::size_t kBytesMax>
  void Raw(const ShortText<kBytesMax>& text) {
    if (kBytesMax > sizeof buffer_ - size_) [[unlikely]]
      return RawThatIsCut(text.view());
    // Whatever its size is, as that of the copy is known here.
    std::memcpy(buffer_ + size_, text.data(), kBytesMax);
    size_ += text.size();
  }
  // Three digits in place of those that are there.
  void ThreeAt(std::size_t at, std::uint64_t value) {
    buffer_[at] = static_cast<char>('0' + value / 100 % 10);
    buffer_[at + 1] = static_cast<char>('0' + value / 10 % 10);
    buffer_[at + 2] = static_cast<char>('0' + value % 10);
  }

  // Only if there is something to say, in characters that need no escape.
  template <JsonName kName>
  [[gnu::always_inline]] void PlainIfAny(const auto& value) {
    if (value.empty()) return;
    Raw(std::string_view(kMemberStart<kName>));
    Raw(value);
    Raw("\"");
  }
  template <JsonName kName>
  void TextIfAny(const std::string& value) {
    if (value.empty()) return;
    std::string quoted;
    AppendJsonString(quoted, value);
    Start<kName>();
    Raw(quoted);
  }
  template <JsonName kName>
  [[gnu::always_inline]] void Number(std::uint64_t value) {
    Start<kName>();
    Digits(value);
  }
  template <JsonName kName>
  void Bool(bool value) {
    Start<kName>();
    if (value) {
      Raw("true");
    } else {
      Raw("false");
    }
  }
  template <JsonName kName>
  [[gnu::always_inline]] void Millis(std::chrono::nanoseconds time) {
    Start<kName>();
    Millis(time);
  }
  // Those of an object that is written out.
  [[gnu::always_inline]] void Members(std::string_view object) {
    Raw(",");
    Raw(object.substr(1, object.size() - 2));
  }
  std::string_view view() const { return {buffer_, size_}; }

 private:
  template <JsonName kName>
  [[gnu::always_inline]] void Start() {
    constexpr std::string_view kWithQuote(kMemberStart<kName>);
    Raw(kWithQuote.substr(0, kWithQuote.size() - 1));
  }
  void Digits(std::uint64_t value) {
    if (value < 10 && size_ < sizeof buffer_) {
      buffer_[size_++] = static_cast<char>('0' + value);
      return;
    }
    const auto end = std::to_chars(buffer_ + size_, buffer_ + sizeof buffer_, value);
    if (end.ec == std::errc()) size_ = static_cast<std::size_t>(end.ptr - buffer_);
  }
  void Millis(std::chrono::nanoseconds time) {
    const auto micros = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(time).count());
    Digits(micros / 1000);
    Raw(".000");
    ThreeAt(size_ - 3, micros % 1000);
  }
  void RawThatIsCut(std::string_view text) { Raw(text.substr(0, sizeof buffer_ - size_)); }

  char buffer_[4096];
  std::size_t size_ = 0;
};

}  // namespace recourse
