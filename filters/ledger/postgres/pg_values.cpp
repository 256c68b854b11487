#include "filters/ledger/postgres/pg_values.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "proxy/base/check.h"

namespace recourse {
namespace {

template <class Value>
void AppendBigEndian(std::string& out, Value value) {
  const Value swapped = std::byteswap(value);
  out.append(reinterpret_cast<const char*>(&swapped), sizeof swapped);
}

std::string BigEndian(std::int64_t value) {
  std::string bytes;
  AppendBigEndian(bytes, value);
  return bytes;
}

}  // namespace

PgArguments& PgArguments::Int(std::int64_t value) {
  Add(BigEndian(value));
  return *this;
}

PgArguments& PgArguments::Uuid(const Digest& digest) {
  Add(std::string(UuidOf(digest)));
  return *this;
}

PgArguments& PgArguments::Bytes(std::string_view bytes) {
  Add(std::string(bytes));
  return *this;
}

PgArguments& PgArguments::Bool(bool value) {
  Add(std::string(1, value ? '\1' : '\0'));
  return *this;
}

PgArguments& PgArguments::Null() {
  values_.emplace_back(std::nullopt);
  return *this;
}

void PgArray::Add(std::string_view bytes) {
  AppendBigEndian(bytes_, static_cast<std::int32_t>(bytes.size()));
  bytes_.append(bytes);
  ++count_;
}

void PgArray::Int(std::int64_t value) { Add(BigEndian(value)); }

void PgArray::Bool(bool value) {
  Add(value ? std::string_view("\1", 1) : std::string_view("\0", 1));
}

void PgArray::Null() {
  AppendBigEndian(bytes_, std::int32_t{-1});
  has_null_ = true;
  ++count_;
}

// One dimension that begins at 1.
void PgArray::AppendTo(PgArguments& arguments) const {
  std::string value;
  AppendBigEndian(value, std::int32_t{count_ == 0 ? 0 : 1});
  AppendBigEndian(value, std::int32_t{has_null_ ? 1 : 0});
  AppendBigEndian(value, static_cast<std::uint32_t>(type_));
  if (count_ != 0) {
    AppendBigEndian(value, count_);
    AppendBigEndian(value, std::int32_t{1});
    value.append(bytes_);
  }
  arguments.Add(std::move(value));
}

std::string_view PgRows::Bytes(int row, int column) const {
  return {PQgetvalue(result_.get(), row, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

std::int64_t PgRows::Int(int row, int column) const {
  const std::string_view bytes = Bytes(row, column);
  if (bytes.empty()) return 0;
  RC_CHECK(bytes.size() <= sizeof(std::int64_t));
  const bool is_negative = bytes.size() > 1 && (bytes.front() & 0x80) != 0;
  std::uint64_t value = is_negative ? ~std::uint64_t{0} : 0;
  for (const char byte : bytes) value = (value << 8) | static_cast<unsigned char>(byte);
  return static_cast<std::int64_t>(value);
}

Digest PgRows::Uuid(int row, int column) const {
  Digest digest{};
  const std::string_view bytes = Bytes(row, column);
  std::memcpy(digest.data(), bytes.data(), std::min(bytes.size(), digest.size()));
  return digest;
}

}  // namespace recourse
