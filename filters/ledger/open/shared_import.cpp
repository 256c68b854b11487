#include "filters/ledger/open/shared_import.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/import/import_stream.h"
#include "filters/ledger/postgres/import/imported_tables.h"
#include "filters/ledger/postgres/schema.h"
#include "policy/model/callers.h"

namespace recourse {
namespace {

constexpr Millis kImportAnswerWithin{600'000};
constexpr std::size_t kImportScanRows = 256;

constexpr PgStatement kImportInstall{
    "import_install", "UPDATE ledger SET install_id = $1::text WHERE install_id = ''"};

using ImportDone = std::expected<void, std::string>;

// Its keys are made with that secret: with another one its calls would be taken for others, and
// others for its calls.
LedgerSecretsOf JudgedBy(const PgLedgerFacts& facts, LedgerSecretsOf secrets,
                         std::string& install_id, std::string& misfit) {
  return [&facts, secrets = std::move(secrets), &install_id,
          &misfit](const LedgerFacts& of) -> std::expected<LedgerSecrets, std::string> {
    auto loaded = secrets(of);
    if (!loaded) return loaded;
    if (!facts.install_id.empty() && facts.install_id != loaded->install_id) {
      misfit =
          "the database belongs to another install.secret: that is another domain of trust, whose "
          "calls have other keys; import it into a database of its own, and give its pods this "
          "directory's install.secret";
      return std::unexpected(misfit);
    }
    install_id = loaded->install_id;
    return loaded;
  };
}

// The rows of a log, one after the other, each behind the one before it.
class ChainWalk {
 public:
  ChainWalk(EventLog& log, EventLog::Reader& reader)
      : reader_(reader), last_(log.last_seq()), next_(log.base().first_seq) {
    previous_ = log.base().prev_hash;
  }

  // With each row, until it fails.
  template <class Taken>
  ImportDone Each(const Taken& taken) {
    while (next_ <= last_) {
      std::vector<std::string> rows;
      const bool is_read =
          reader_.Scan(next_, kImportScanRows, [&](std::uint64_t /*seq*/, std::string_view row) {
            rows.emplace_back(row);
            return true;
          });
      if (!is_read || rows.empty()) return Broken("cannot be read");
      for (const std::string& bytes : rows) {
        const auto row = ParseRow(bytes);
        if (!row || row->head.seq != next_) return Broken("is damaged");
        if (row->head.prev_hash != previous_) return Broken("does not follow the one before it");
        previous_ = RowHash(bytes);
        if (ImportDone done = taken(*row, bytes, previous_); !done) return done;
        ++next_;
      }
    }
    return {};
  }
  const Digest& head() const { return previous_; }

 private:
  ImportDone Broken(std::string_view how) const {
    return std::unexpected(fmt::format(
        "row {} {}: restore the newest backup of the directory, and import that", next_, how));
  }

  EventLog::Reader& reader_;
  const std::uint64_t last_;
  std::uint64_t next_;
  Digest previous_{};
};

std::expected<std::string, std::string> Bring(EventLog& log, ImportStream& stream,
                                              const Clock& clock) {
  const auto reader = log.NewReader();
  const auto looker = log.NewReader();
  ImportedTables tables(*looker, clock, log.base().first_seq);
  ChainWalk walk(log, *reader);
  const std::uint64_t there = stream.head();
  const Digest chain = stream.chain();
  bool is_same = there + 1 == log.base().first_seq && chain == log.base().prev_hash;
  const auto done =
      walk.Each([&](const RowView& row, std::string_view bytes, const Digest& hash) -> ImportDone {
        if (row.head.seq == there) is_same = hash == chain;
        if (stream.is_complete()) return {};
        const auto columns = tables.Take(row);
        if (!columns) return std::unexpected(columns.error());
        return row.head.seq > there ? stream.Add(*columns, bytes, row.head.wall_ms) : ImportDone();
      });
  if (!done) return std::unexpected(done.error());
  if (!is_same || (stream.is_complete() && there != log.last_seq())) {
    return std::unexpected(
        "the database has other rows of it than the directory: that went on after it was imported, "
        "or was put back; what the database has was not changed");
  }
  if (stream.is_complete()) {
    return fmt::format("nothing to do: its {} rows are there already",
                       log.last_seq() + 1 - log.base().first_seq);
  }
  tables.Finish();
  const auto summary = stream.Complete(tables);
  if (!summary) return std::unexpected(summary.error());
  std::string line = fmt::format("imported {} rows with {} operations, {} of them open or waiting",
                                 tables.rows(), summary->operations, summary->open);
  if (summary->known > 0) {
    line += fmt::format("; {} keys have an operation there already, which stays what they mean",
                        summary->known);
  }
  return line;
}

}  // namespace

std::expected<std::string, Unopened> ImportLedger(LedgerImport import, const Clock& clock) {
  auto connection = PgConnection::Open({.url = import.to.url.place,
                                        .password_file = import.to.password_file,
                                        .answer_within = kImportAnswerWithin});
  if (!connection) return std::unexpected(connection.error());
  const PgPurpose purpose{"pod", import.group};
  const auto facts = ReadPgLedgerFacts(**connection, purpose);
  if (!facts) return std::unexpected(facts.error());
  if (!HasLedger(import.from.directory)) {
    return std::unexpected(Unopened{import.from.directory + " holds no ledger"});
  }
  std::string install_id, misfit;  // why the database, not the directory, refuses
  import.from.moves_to = ToHex(facts->identity);
  import.from.secrets = JudgedBy(*facts, std::move(import.from.secrets), install_id, misfit);
  ImportStream stream(**connection);
  import.from.is_taken = [&](EventLog& log) -> ImportDone {
    (*connection)->Queue(kImportInstall, PgArguments().Bytes(install_id));
    ImportDone begun;
    if (auto put = (*connection)->Run(); !put) {
      begun = std::unexpected(UnopenedBy(**connection, put.error(), purpose).why);
    } else {
      begun = stream.Begin({.identity = log.identity(),
                            .group = import.group,
                            .pod = import.from.directory,
                            .agents = import.group + "/" + CallerIdentity().name,
                            .base = log.base()});
    }
    if (!begun) misfit = begun.error();
    return begun;
  };
  auto parts = OpenLmdbParts(import.from);
  if (!parts && !misfit.empty()) {
    return std::unexpected(
        Unopened{fmt::format("{} was not imported: {}", import.from.directory, misfit)});
  }
  if (!parts) return std::unexpected(Unopened{parts.error()});
  auto brought = Bring(*parts->log, stream, clock);
  if (!brought) return std::unexpected(Unopened{std::move(brought.error())});
  return std::move(*brought);
}

}  // namespace recourse
