// Values on their way to and from PostgreSQL, in its binary formats.
#pragma once

#include <libpq-fe.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/crypto/hash.h"

namespace recourse {

// The first 16 bytes of a digest, as the database knows it.
inline constexpr std::size_t kUuidBytes = 16;
inline std::string_view UuidOf(const Digest& digest) {
  return AsView(digest).substr(0, kUuidBytes);
}

// As the database has it, whose integers have a sign. Ids and counts never need the highest bit.
inline std::int64_t AsInt(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// Arguments of one statement, in order. Types are those that the statement casts to.
class PgArguments {
 public:
  PgArguments& Int(std::int64_t value);  // int8
  PgArguments& Uuid(const Digest& digest);
  PgArguments& Bytes(std::string_view bytes);  // bytea or text
  PgArguments& Bool(bool value);
  PgArguments& Null();

  std::size_t size() const { return values_.size(); }
  const std::vector<std::optional<std::string>>& values() const { return values_; }

 protected:
  void Add(std::string value) { values_.emplace_back(std::move(value)); }

 private:
  std::vector<std::optional<std::string>> values_;

  friend class PgArray;
};

// One array, for unnest.
class PgArray {
 public:
  enum class Of : std::uint32_t { kBool = 16, kBytes = 17, kInt = 20, kText = 25, kUuid = 2950 };
  explicit PgArray(Of type) : type_(type) {}
  void Int(std::int64_t value);
  void Uuid(const Digest& digest) { Add(UuidOf(digest)); }
  void Bytes(std::string_view bytes) { Add(bytes); }
  void Bool(bool value);
  void Null();
  std::int32_t size() const { return count_; }
  void AppendTo(PgArguments& arguments) const;

 private:
  void Add(std::string_view bytes);

  Of type_;
  std::int32_t count_ = 0;
  bool has_null_ = false;
  std::string bytes_;
};

// What one statement gave. A column that is null reads as zero or empty.
class PgRows {
 public:
  PgRows() = default;
  explicit PgRows(PGresult* result) : result_(result) {}
  int size() const { return result_ ? PQntuples(result_.get()) : 0; }
  bool IsNull(int row, int column) const { return PQgetisnull(result_.get(), row, column) != 0; }
  std::int64_t Int(int row, int column) const;  // of any width, and bool
  std::uint64_t Number(int row, int column) const {
    return static_cast<std::uint64_t>(Int(row, column));
  }
  std::string_view Bytes(int row, int column) const;
  Digest Uuid(int row, int column) const;  // zeros behind its 16 bytes

 private:
  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  std::unique_ptr<PGresult, Clear> result_;
};

}  // namespace recourse
