// Bounded little-endian reading and writing of records.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "proxy/base/check.h"

namespace recourse {

class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}
  template <class Value>
  void Int(Value value) {
    static_assert(std::is_integral_v<Value> || std::is_enum_v<Value>);
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);  // little-endian hosts only, checked below
    out_.append(raw, sizeof raw);
  }
  void Raw(std::string_view bytes) { out_.append(bytes); }
  // A length of four bytes, then the bytes.
  void Text(std::string_view text) {
    RC_CHECK(text.size() <= std::numeric_limits<std::uint32_t>::max());
    Int(static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }

 private:
  std::string& out_;
};

// Reads what ByteWriter wrote. After the first short read every further read fails and yields zero
// or empty, so one check of ok() at the end suffices.
class ByteReader {
 public:
  explicit ByteReader(std::string_view in) : in_(in) {}
  template <class Value>
  Value Int() {
    Value value{};
    if (!Take(sizeof value)) return value;
    std::memcpy(&value, taken_.data(), sizeof value);
    return value;
  }
  std::string_view Raw(std::size_t size) { return Take(size) ? taken_ : std::string_view(); }
  std::string_view Text() { return Raw(Int<std::uint32_t>()); }
  bool ok() const { return ok_; }
  std::size_t left() const { return in_.size(); }
  bool at_end() const { return ok_ && in_.empty(); }

 private:
  bool Take(std::size_t size) {
    if (!ok_ || size > in_.size()) {
      ok_ = false;
      return false;
    }
    taken_ = in_.substr(0, size);
    in_.remove_prefix(size);
    return true;
  }

  std::string_view in_;
  std::string_view taken_;
  bool ok_ = true;
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

}  // namespace recourse
