// What a role of the database may do with a ledger's tables: no more than its task needs, and of
// the rows of its group alone.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "filters/ledger/postgres/connection.h"

namespace recourse {

enum class PgTask : std::uint8_t {
  kPod,        // serves agents; removes nothing but work that is done
  kKeeper,     // the same, and removes what is old
  kMigration,  // makes and changes the tables, which it owns
  kReader,     // looks, checks and exports
};
std::optional<PgTask> PgTaskOf(std::string_view name);  // "pod", "keeper", "migration", "reader"

struct PgGrant {
  PgTask task = PgTask::kPod;
  std::string role{};   // is there already
  std::string group{};  // empty: of all groups, which a reader may have
};

// The statements, in one transaction; done again they give the same. Names are quoted. Pure.
std::string SqlOf(const PgGrant& grant, std::string_view schema);

// As whoever owns the tables. From the first one on, rows are seen by roles that were given some.
std::expected<void, Unopened> GrantPg(PgConnection& connection, const PgGrant& grant);

}  // namespace recourse
