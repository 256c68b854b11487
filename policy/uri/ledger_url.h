// Where a ledger is, as a policy and the command line name it. Pure.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

struct LedgerUrl {
  enum class Store : std::uint8_t { kLmdb, kMemory, kPostgres };
  Store store = Store::kLmdb;
  std::string place;         // kLmdb: the directory; kPostgres: all of it, for libpq
  std::uint32_t stream = 0;  // kMemory: of its ids, as those of a ledger of many streams
  // kPostgres: names, addresses and folders of sockets; empty: the socket of this machine.
  std::vector<std::string> hosts{};
  std::string sslmode{};      // empty: none was given
  bool has_password = false;  // anybody who sees it can read one

  bool is_shared() const { return store == Store::kPostgres; }
};

inline constexpr std::string_view kLedgerUrlForms =
    "postgres://USER@HOST/DATABASE, lmdb:DIRECTORY, memory:";

// Fails with a line for people, which never repeats the text: it may hold a password.
std::expected<LedgerUrl, std::string> ParseLedgerUrl(std::string_view text);

// Every host of it is this machine.
bool IsLocal(const LedgerUrl& url);

}  // namespace recourse
