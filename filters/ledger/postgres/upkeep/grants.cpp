#include "filters/ledger/postgres/upkeep/grants.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace recourse {
namespace {

constexpr std::array<std::string_view, 10> kGrantTables = {
    "ledger", "stream", "operation", "intent", "flow",
    "event",  "work",   "policy",    "moved",  "secret"};
constexpr std::string_view kAllTables =
    "ledger, stream, operation, intent, flow, event, event_rest, work, policy, moved, secret";
constexpr std::string_view kSequences = "stream_number, place";

constexpr PgStatement kGrantSchema{"grant_schema", "SELECT current_schema()"};

std::string Quoted(std::string_view text, char quote) {
  std::string quoted(1, quote);
  for (const char c : text) {
    if (c == quote) quoted += c;
    quoted += c;
  }
  return quoted + quote;
}

// Only rows that have a group are told apart.
bool HasGroup(std::string_view table) { return table != "ledger"; }

std::string_view RightsOf(PgTask task) {
  switch (task) {
    case PgTask::kPod:
    case PgTask::kKeeper:
      // Which ledger it is, and of which version, is no pod's to say.
      return "GRANT SELECT, UPDATE (install_id, restored_at, accepted_at, accepted_why) ON ledger"
             " TO {0};\n"
             "GRANT SELECT, INSERT, UPDATE ON stream, operation, intent, flow, policy TO {0};\n"
             "GRANT SELECT, INSERT ON event, moved, secret TO {0};\n"
             "GRANT UPDATE (accepted_at) ON secret TO {0};\n"
             "GRANT SELECT, INSERT, UPDATE, DELETE ON work TO {0};\n"
             "GRANT USAGE, SELECT, UPDATE ON SEQUENCE stream_number, place TO {0};\n";
    case PgTask::kReader:
      return "GRANT SELECT ON ledger, stream, operation, intent, flow, event, work, policy, moved,"
             " secret TO {0};\n"
             // Which numbers were given away; it may take none.
             "GRANT SELECT ON SEQUENCE stream_number TO {0};\n";
    case PgTask::kMigration:
      break;
  }
  return "";
}

std::string OwnershipOf(const std::string& role, const std::string& schema) {
  std::string sql = fmt::format("GRANT USAGE, CREATE ON SCHEMA {} TO {};\n", schema, role);
  for (const std::string_view table : kGrantTables) {
    sql += fmt::format("ALTER TABLE {} OWNER TO {};\n", table, role);
  }
  sql += fmt::format("ALTER TABLE event_rest OWNER TO {};\n", role);
  sql += fmt::format("ALTER SEQUENCE stream_number OWNER TO {};\n", role);
  return sql + fmt::format("ALTER SEQUENCE place OWNER TO {};\n", role);
}

}  // namespace

std::optional<PgTask> PgTaskOf(std::string_view name) {
  if (name == "pod") return PgTask::kPod;
  if (name == "keeper") return PgTask::kKeeper;
  if (name == "migration") return PgTask::kMigration;
  if (name == "reader") return PgTask::kReader;
  return std::nullopt;
}

std::string SqlOf(const PgGrant& grant, std::string_view schema_name) {
  const std::string role = Quoted(grant.role, '"'), schema = Quoted(schema_name, '"');
  if (grant.task == PgTask::kMigration) return OwnershipOf(role, schema);
  std::string sql = fmt::format("REVOKE ALL ON {} FROM {};\n", kAllTables, role);
  sql += fmt::format("REVOKE ALL ON SEQUENCE {} FROM {};\n", kSequences, role);
  sql += fmt::format("GRANT USAGE ON SCHEMA {} TO {};\n", schema, role);
  sql += fmt::format(fmt::runtime(RightsOf(grant.task)), role);
  if (grant.task == PgTask::kKeeper) {
    sql += fmt::format("GRANT DELETE ON operation, intent, flow, event, moved TO {};\n", role);
  }
  // No plan may take the group alone, of which all rows are, for what finds one of them.
  const std::string rows =
      grant.group.empty() ? "true" : "grp || '' = " + Quoted(grant.group, '\'');
  for (const std::string_view table : kGrantTables) {
    if (!HasGroup(table)) continue;
    sql += fmt::format(
        "ALTER TABLE {0} ENABLE ROW LEVEL SECURITY;\n"
        "DROP POLICY IF EXISTS {1} ON {0};\n"
        "CREATE POLICY {1} ON {0} TO {1} USING ({2}) WITH CHECK ({2});\n",
        table, role, rows);
  }
  return sql;
}

std::expected<void, Unopened> GrantPg(PgConnection& connection, const PgGrant& grant) {
  constexpr std::string_view kNoSuchRole = "42704";
  connection.Queue(kGrantSchema);
  const auto schema = connection.Run();
  if (!schema) return std::unexpected(UnopenedBy(connection, schema.error(), kPgOwns));
  const std::string sql = SqlOf(grant, schema->front().Bytes(0, 0));
  if (auto done = connection.Execute("BEGIN;\n" + sql + "COMMIT"); !done) {
    (void)connection.Execute("ROLLBACK");
    Unopened failed = UnopenedBy(connection, done.error(), kPgOwns);
    failed.why = "the rights cannot be given: " + failed.why;
    if (done.error().sqlstate == kNoSuchRole) failed.why += "; make it first: CREATE ROLE";
    return std::unexpected(std::move(failed));
  }
  return {};
}

}  // namespace recourse
