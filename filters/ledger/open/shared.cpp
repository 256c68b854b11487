#include "filters/ledger/open/shared.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/postgres/upkeep/grants.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

using Text = std::expected<std::string, Unopened>;
using Connected = std::expected<std::unique_ptr<PgConnection>, Unopened>;

constexpr PgStatement kVersion{
    "tables_version", "SELECT schema_version FROM ledger WHERE to_regclass('ledger') IS NOT NULL"};
constexpr PgStatement kReplicas{
    "replicas",
    "SELECT current_setting('server_version'), current_setting('synchronous_standby_names')"};
constexpr PgStatement kStreams{
    "streams",
    "SELECT stream, grp, pod, version, state::bigint, head, open,"
    " extract(epoch FROM now() - at)::bigint FROM stream WHERE state <> 3 ORDER BY stream"};
constexpr PgStatement kWork{
    "work_by_kind",
    "SELECT grp, kind::bigint, count(*), count(*) FILTER (WHERE owner IS NULL) FROM work"
    " GROUP BY grp, kind ORDER BY grp, kind"};

// Indexes of all that is remembered may be made anew.
constexpr Millis kMigrationAnswerWithin = std::chrono::hours(6);

Connected Connect(const SharedLedger& ledger, Millis answer_within = PgOptions().answer_within) {
  if (!ledger.url.is_shared()) return std::unexpected(Unopened{"it is no ledger in a database"});
  return PgConnection::Open({.url = ledger.url.place,
                             .password_file = ledger.password_file,
                             .answer_within = answer_within});
}

// 0: there are none.
std::expected<std::int64_t, Unopened> VersionOfTables(PgConnection& connection) {
  connection.Queue(kVersion);
  const auto answered = connection.Run();
  if (answered) return answered->front().size() > 0 ? answered->front().Int(0, 0) : 0;
  if (answered.error().sqlstate == "42P01") return 0;
  return std::unexpected(UnopenedBy(connection, answered.error(), {.task = "migration"}));
}

std::string_view NameOfWork(std::int64_t kind) {
  switch (static_cast<WorkKind>(kind)) {
    case WorkKind::kSettle:
      return "settle";
    case WorkKind::kApproval:
      return "approval";
    case WorkKind::kFlow:
      return "flow";
    case WorkKind::kKeeper:
      return "retention";
  }
  return "other";
}

void WriteStreams(JsonObject& json, const PgRows& rows) {
  JsonList streams = json.List("streams");
  for (int row = 0; row < rows.size(); ++row) {
    JsonObject stream = streams.Object();
    stream.Number("stream", rows.Int(row, 0));
    stream.Text("group", rows.Bytes(row, 1));
    stream.Text("pod", rows.Bytes(row, 2));
    stream.Text("version", rows.Bytes(row, 3));
    stream.Text("state", ShownState(static_cast<StreamState>(rows.Int(row, 4)), rows.Int(row, 7)));
    stream.Number("rows", rows.Int(row, 5));
    stream.Number("running", rows.Int(row, 6));
    stream.Number("silent_s", rows.Int(row, 7));
  }
}

void WriteWork(JsonObject& json, const PgRows& rows) {
  JsonList kinds = json.List("work");
  for (int row = 0; row < rows.size(); ++row) {
    JsonObject work = kinds.Object();
    work.Text("group", rows.Bytes(row, 0));
    work.Text("kind", NameOfWork(rows.Int(row, 1)));
    work.Number("count", rows.Int(row, 2));
    work.Number("unowned", rows.Int(row, 3));
  }
}

}  // namespace

Text MigrateSharedLedger(const SharedLedger& ledger) {
  auto connection = Connect(ledger, kMigrationAnswerWithin);
  if (!connection) return std::unexpected(connection.error());
  const auto before = VersionOfTables(**connection);
  if (!before) return std::unexpected(before.error());
  if (*before > kPgSchemaVersion) {
    return std::unexpected(Unopened{
        fmt::format("its tables are of version {}, which a later recourse has made; this one knows "
                    "version {} and has changed nothing",
                    *before, kPgSchemaVersion)});
  }
  if (auto made = MigratePgSchema(**connection); !made) return std::unexpected(made.error());
  const auto facts = ReadPgLedgerFacts(**connection);
  if (!facts) return std::unexpected(facts.error());
  const std::string identity = ToHex(facts->identity);
  if (*before == kPgSchemaVersion) {
    return fmt::format("nothing to do: the tables are of version {}, ledger {}", kPgSchemaVersion,
                       identity);
  }
  if (*before == 0) {
    return fmt::format("made the tables of version {}, ledger {}", kPgSchemaVersion, identity);
  }
  return fmt::format("brought the tables from version {} to {}, ledger {}", *before,
                     kPgSchemaVersion, identity);
}

Text SharedLedgerStatus(const SharedLedger& ledger) {
  auto connection = Connect(ledger);
  if (!connection) return std::unexpected(connection.error());
  const auto facts = ReadPgLedgerFacts(**connection);
  if (!facts) return std::unexpected(facts.error());
  for (const PgStatement& asked : {kReplicas, kStreams, kWork}) (*connection)->Queue(asked);
  const auto answered = (*connection)->Run();
  if (!answered) return std::unexpected(UnopenedBy(**connection, answered.error(), {}));
  const PgRows& server = answered->front();
  return ObjectText([&](JsonObject& json) {
    json.Text("identity", ToHex(facts->identity));
    json.Number("tables", facts->schema_version);
    json.Bool("restored", facts->is_restored);
    json.Text("server", server.Bytes(0, 0));
    json.Bool("synchronous", !server.Bytes(0, 1).empty());
    WriteStreams(json, (*answered)[1]);
    WriteWork(json, (*answered)[2]);
  });
}

Text GrantSharedLedger(const SharedLedger& ledger, const SharedGrant& grant) {
  const auto task = PgTaskOf(grant.task);
  if (!task) return std::unexpected(Unopened{"'" + grant.task + "' is no task of a role"});
  if (grant.group.empty() && (*task == PgTask::kPod || *task == PgTask::kKeeper)) {
    return std::unexpected(Unopened{"whose rows? Name the group with --group"});
  }
  auto connection = Connect(ledger);
  if (!connection) return std::unexpected(connection.error());
  if (const auto facts = ReadPgLedgerFacts(**connection, kPgOwns); !facts) {
    return std::unexpected(facts.error());
  }
  const PgGrant given{.task = *task, .role = grant.role, .group = grant.group};
  if (auto done = GrantPg(**connection, given); !done) return std::unexpected(done.error());
  const std::string whose = grant.group.empty() ? "all groups" : "the group " + grant.group;
  return fmt::format("ok: {} may do what a {} does, with rows of {}", grant.role, grant.task,
                     whose);
}

Text AcceptSharedLedger(const SharedLedger& ledger, std::string_view group, std::string_view why) {
  auto connection = Connect(ledger);
  if (!connection) return std::unexpected(connection.error());
  if (const auto facts = ReadPgLedgerFacts(**connection, {"pod", group}); !facts) {
    return std::unexpected(facts.error());
  }
  const auto accepted = AcceptPgRestored(**connection, group, why);
  if (!accepted) return std::unexpected(accepted.error());
  if (!accepted->was_restored) return "nothing to accept: it was not put back";
  const std::string whose = group.empty() ? "" : fmt::format(" of the group {}", group);
  const std::string_view rest = accepted->is_all ? "" : "; other groups have not accepted it yet";
  return fmt::format("ok: new writes{} are let through{}", whose, rest);
}

}  // namespace recourse
