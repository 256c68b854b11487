// A short text that lies where it is: of a fixed size, so that copying it calls nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace recourse {

template <std::size_t kBytesMax>
class ShortText {
  static_assert(kBytesMax <= UINT8_MAX);

 public:
  // What does not fit is cut.
  void Set(std::string_view text) {
    size_ = static_cast<std::uint8_t>(text.copy(bytes_, kBytesMax));
  }
  std::string_view view() const { return {bytes_, size_}; }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // Of which the first size() are the text.
  static constexpr std::size_t kCapacity = kBytesMax;
  const char* data() const { return bytes_; }

 private:
  char bytes_[kBytesMax] = {};
  std::uint8_t size_ = 0;
};

using PeerText = ShortText<64>;  // an IP address, with its zone

}  // namespace recourse
