#include "filters/ledger/lmdb/open.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "filters/ledger/commit/group_commit_ledger.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/data_file.h"
#include "filters/ledger/lmdb/journal_start.h"
#include "filters/ledger/lmdb/ledger_directory.h"
#include "filters/ledger/lmdb/lmdb_cold_index.h"
#include "filters/ledger/lmdb/lmdb_event_log.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/hex.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr char kDataFile[] = "data.mdb";
constexpr char kIndexDirectory[] = "index";
constexpr char kNewDirectory[] = "new";

using Done = std::expected<void, std::string>;

std::string Line(const std::string& directory, std::string_view reason) {
  return fmt::format("the ledger in {} cannot be used: {}", directory, reason);
}

// A new ledger is made whole beside its place and then moved there, so that a data.mdb which is not
// sound was never the leftover of a first start that was killed: it is never replaced.
Done CreateData(LedgerDirectory& directory, const LmdbLedgerOptions& options) {
  if (directory.is_sealed()) {
    return std::unexpected(
        "data.mdb is missing though a ledger was created here; restore it from a backup, or name "
        "an empty directory to start without any memory of earlier calls");
  }
  if (options.expected.rows > 0) {
    return std::unexpected(
        "there is none, and --expect-ledger says that there was one: is the right volume mounted? "
        "Restore it from a backup, or start once without --expect-ledger to begin without any "
        "memory of earlier calls");
  }
  if (Done renewed = directory.Renew(kNewDirectory); !renewed) return renewed;
  {
    auto env = LmdbEnv::Open(directory.PathOf(kNewDirectory), options.map_bytes);
    if (!env) return std::unexpected(env.error());
    if (Done created = LmdbEventLog::Create(**env); !created) return created;
  }
  const std::string made = std::string(kNewDirectory) + "/" + kDataFile;
  if (Done moved = directory.Rename(made, kDataFile); !moved) return moved;
  if (Done removed = directory.Remove(kNewDirectory); !removed) return removed;
  return directory.Sync();
}

// Leaves a marker that outlasts restarts: where the log ended, and when.
Done MarkRestored(LedgerDirectory& directory, LmdbEventLog& log) {
  if (!directory.Restored().empty()) return {};
  std::string bytes;
  const auto row =
      log.NewReader()->Read(log.last_seq(), bytes) ? ParseRow(bytes) : std::unexpected("");
  return directory.MarkRestored(
      fmt::format("{} {}", log.last_seq(), row ? row->head.wall_ms : std::int64_t{0}));
}

// A log without rows has nothing that could be missed.
Done NoteRestored(LedgerDirectory& directory, LmdbEventLog& log) {
  return log.last_seq() == 0 ? Done() : MarkRestored(directory, log);
}

std::expected<std::unique_ptr<LmdbEventLog>, std::string> OpenLog(
    LedgerDirectory& directory, const LmdbLedgerOptions& options) {
  if (!directory.Has(kDataFile)) {
    if (Done created = CreateData(directory, options); !created) {
      return std::unexpected(created.error());
    }
  }
  auto file = DataFile::Open(directory.PathOf(kDataFile));
  if (!file) return std::unexpected(file.error());
  const auto pages = (*file)->Check(limits::kLedgerCheckPages);
  if (!pages) return std::unexpected(pages.error());
  const bool is_newest = pages->is_newest_sure || (*file)->HasFailedCommitAfter(pages->transaction);
  auto env = LmdbEnv::Open(options.directory, options.map_bytes);
  if (!env) return std::unexpected(fmt::format("data.mdb: {}", env.error()));
  auto log = LmdbEventLog::Open(std::move(*env), std::move(*file));
  if (!log || is_newest) return log;
  if (Done noted = NoteRestored(directory, **log); !noted) return std::unexpected(noted.error());
  return log;
}

// Once nothing else speaks against the ledger: what is refused is not marked.
Done NoteLost(LedgerDirectory& directory, LmdbEventLog& log, const std::string& lost) {
  if (lost.empty()) return {};
  Log(LogLevel::kWarn, "newer rows of the ledger may be lost",
      {{"reason", lost},
       {"last_row", std::to_string(log.last_seq())},
       {"do",
        "look for the files that belong together; a journal that does not fit is kept as "
        "journal.lost"}});
  return MarkRestored(directory, log);
}

Done CheckSameLedger(LedgerDirectory& directory, LmdbEventLog& log) {
  const std::string identity = ToHex(log.identity());
  const std::string sealed = directory.SealedIdentity();
  if (sealed.empty() || sealed == identity) return {};
  if (!IsLowerHex(sealed) || sealed.size() != identity.size()) {
    return std::unexpected(
        "recourse.sealed is damaged: it names no ledger; restore it from the same backup as the "
        "ledger, or remove it, and the ledger counts as restored until somebody has accepted that");
  }
  return std::unexpected(fmt::format(
      "data.mdb is that of another ledger ({}...), here was {}...; put the right file back, or "
      "name an empty directory and restore into that",
      identity.substr(0, 8), sealed.substr(0, 8)));
}

// An index that knows rows which the log has not: the log went back to an older copy.
Done CheckIndexIsNotAhead(LedgerDirectory& directory, LmdbEventLog& log, ColdIndex& index) {
  const auto mark = index.LoadMark();
  if (!mark || mark->applied_seq < log.base().first_seq) return {};
  std::string row;
  const bool is_there = log.NewReader()->Read(mark->applied_seq, row);
  if (is_there && RowHash(row) == mark->applied_hash) return {};
  return NoteRestored(directory, log);
}

// "1767225600000" as "2026-01-01T00:00:00Z".
std::string DateOf(const std::string& unix_ms) {
  std::int64_t ms = 0;
  std::from_chars(unix_ms.data(), unix_ms.data() + unix_ms.size(), ms);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(ms / 1000)));
}

void WarnOfRestore(const std::string& restored) {
  Log(LogLevel::kWarn,
      "the ledger was restored from a backup, or lost its newest rows: what was done after them is "
      "not remembered, and would be done again by a repeat; new writes are refused until somebody "
      "has accepted that",
      {{"last_row", restored.substr(0, restored.find(' '))},
       {"written", DateOf(restored.substr(restored.find(' ') + 1))},
       {"do", "find out what was done since, then run: recourse ledger accept --reason TEXT"}});
}

Done SealIdentity(LedgerDirectory& directory, LmdbEventLog& log) {
  if (!directory.SealedIdentity().empty()) return {};
  // Rows are written beside a seal only (the oldest ones are empty), so these were brought here.
  if (!directory.is_sealed()) {
    if (Done noted = NoteRestored(directory, log); !noted) return noted;
  }
  return directory.Seal(ToHex(log.identity()));
}

Done CheckExpected(LmdbEventLog& log, const ExpectedLedger& expected) {
  if (log.last_seq() < expected.rows) {
    return std::unexpected(fmt::format(
        "it ends at row {} and --expect-ledger says that it had {} rows: this is an older copy or "
        "another ledger. Restore the newest backup; to go on with this one, whatever it forgot, "
        "start once without --expect-ledger",
        log.last_seq(), expected.rows));
  }
  if (!expected.head) return {};
  if (expected.rows < log.base().first_seq) return {};  // retention removed what was to be compared
  std::string row;
  if (!log.NewReader()->Read(expected.rows, row) || RowHash(row) != *expected.head) {
    return std::unexpected(fmt::format(
        "row {} is not the one that --expect-ledger names: this is another ledger, or its rows "
        "were changed. Restore the newest backup",
        expected.rows));
  }
  return {};
}

// The index is derived: whatever is wrong with it, it starts empty and is built from the events,
// which recovery says.
std::expected<std::unique_ptr<LmdbColdIndex>, std::string> OpenIndex(
    LedgerDirectory& directory, const LmdbLedgerOptions& options) {
  const std::string path = directory.PathOf(kIndexDirectory);
  if (directory.Has(std::string(kIndexDirectory) + "/" + kDataFile)) {
    const auto file = DataFile::Open(path + "/" + kDataFile);
    if (file && (*file)->Check(limits::kLedgerCheckPages)) {
      auto env = LmdbEnv::Open(path, options.map_bytes);
      if (env) {
        auto index = LmdbColdIndex::Open(std::move(*env), LmdbEnv::Missing::kFail);
        if (index) return index;
      }
    }
  }
  if (auto renewed = directory.Renew(kIndexDirectory); !renewed) {
    return std::unexpected(renewed.error());
  }
  auto env = LmdbEnv::Open(path, options.map_bytes);
  if (!env) return std::unexpected(fmt::format("the key index: {}", env.error()));
  return LmdbColdIndex::Open(std::move(*env), LmdbEnv::Missing::kMake);
}

LedgerFacts FactsOfLog(EventLog& log) {
  LedgerFacts facts;
  const auto reader = log.NewReader();
  std::string bytes;
  // Rows of other kinds are few in a row: one per start, or per second with writes.
  for (std::uint64_t seq = log.last_seq(); seq > 0 && !facts.has_events; --seq) {
    const auto row = reader->Read(seq, bytes) ? ParseRow(bytes) : std::unexpected("");
    if (row && row->head.kind != RowKind::kEvent) continue;
    facts.has_events = true;  // also when it is damaged, which recovery reports
    if (row) facts.sealed_with = SealedWith(*row);
  }
  return facts;
}

Done TakeSecrets(const LmdbLedgerOptions& options, LmdbEventLog& log, LedgerParts& parts) {
  if (!options.secrets) return {};
  auto secrets = options.secrets(FactsOfLog(log));
  if (!secrets) return std::unexpected(secrets.error());
  parts.keys = std::move(secrets->keys);
  return log.BindInstall(secrets->install_id);
}

void WarnOfSpace(const LedgerDirectory& directory, const LmdbLedgerOptions& options) {
  const std::uint64_t used = directory.FileBytes(kDataFile);
  const std::uint64_t room = directory.FreeBytes() + used;
  if (options.map_bytes <= room) return;
  Log(LogLevel::kWarn, "the disk will be full before the ledger is; writes are refused then",
      {{"ledger_max_bytes", std::to_string(options.map_bytes)},
       {"room_bytes", std::to_string(room)}});
}

// Whatever went on here after an import would be unknown there.
Done JudgeMoved(const LedgerDirectory& directory, const LmdbLedgerOptions& options) {
  const std::string moved = directory.MovedTo();
  if (moved == options.moves_to) return {};
  if (moved.empty()) {
    if (directory.Restored().empty()) return {};
    return std::unexpected(
        "it was restored from a backup, and nobody has accepted that: run it once and `recourse "
        "ledger accept`, then import it");
  }
  return std::unexpected(fmt::format(
      "it was imported into the shared ledger {}..., which alone knows what is done since; run "
      "with --ledger, or remove {} if nothing was ever run on that one",
      moved.substr(0, 8), directory.PathOf("recourse.moved")));
}

Done NoteMoved(LedgerDirectory& directory, EventLog& log, const LmdbLedgerOptions& options) {
  if (options.moves_to.empty()) return {};
  if (Done taken = options.is_taken(log); !taken) return taken;
  return directory.MovedTo().empty() ? directory.MarkMoved(options.moves_to) : Done();
}

std::expected<LedgerParts, std::string> OpenParts(std::shared_ptr<LedgerDirectory> directory,
                                                  const LmdbLedgerOptions& options) {
  if (Done good = JudgeMoved(*directory, options); !good) return std::unexpected(good.error());
  auto log = OpenLog(*directory, options);
  if (!log) return std::unexpected(log.error());
  if (Done good = CheckSameLedger(*directory, **log); !good) {
    return std::unexpected(good.error());
  }
  // Before whatever looks at the rows: some of them may still be in the journal.
  auto journal = ReplayJournal(*directory, **log);
  if (!journal) return std::unexpected(journal.error());
  if (Done good = CheckExpected(**log, options.expected); !good) {
    return std::unexpected(good.error());
  }
  if (Done good = SealIdentity(*directory, **log); !good) {
    return std::unexpected(good.error());
  }
  auto index = OpenIndex(*directory, options);
  if (!index) return std::unexpected(index.error());
  if (Done good = CheckIndexIsNotAhead(*directory, **log, **index); !good) {
    return std::unexpected(good.error());
  }
  WarnOfSpace(*directory, options);
  LedgerParts parts;
  if (auto taken = TakeSecrets(options, **log, parts); !taken) {
    return std::unexpected(taken.error());
  }
  // Last: what is refused stays as it was, for the version that wrote it.
  if (Done upgraded = (*log)->Upgrade(); !upgraded) return std::unexpected(upgraded.error());
  if (Done noted = NoteLost(*directory, **log, journal->lost); !noted) {
    return std::unexpected(noted.error());
  }
  auto journaled =
      BeginJournal(*directory, std::move(*log), std::move(*journal), options.map_bytes);
  if (!journaled) return std::unexpected(journaled.error());
  if (Done noted = NoteMoved(*directory, **journaled, options); !noted) {
    return std::unexpected(noted.error());
  }
  if (const std::string restored = directory->Restored(); !restored.empty()) {
    WarnOfRestore(restored);
    parts.accept_restored = [directory] { return directory->AcceptRestoredBackup(); };
  }
  parts.resources = std::move(directory);
  parts.log = std::move(*journaled);
  parts.cold = std::move(*index);
  return parts;
}

}  // namespace

bool HasLedger(const std::string& directory) {
  std::error_code error;
  return std::filesystem::exists(directory + "/" + kDataFile, error);
}

std::expected<LedgerParts, std::string> OpenLmdbParts(const LmdbLedgerOptions& options) {
  auto directory = LedgerDirectory::Lock(
      options.directory, {.unsafe_fs = options.unsafe_fs,
                          .create = options.expected.rows == 0 && options.moves_to.empty(),
                          .try_again = options.try_again});
  if (!directory) return std::unexpected(Line(options.directory, directory.error()));
  auto parts = OpenParts(std::move(*directory), options);
  if (!parts) return std::unexpected(Line(options.directory, parts.error()));
  return parts;
}

std::expected<std::unique_ptr<Ledger>, std::string> OpenLmdbLedger(const LmdbLedgerOptions& options,
                                                                   const Clock& clock) {
  auto parts = OpenLmdbParts(options);
  if (!parts) return std::unexpected(parts.error());
  auto engine = StartEngine(std::move(*parts), clock);
  if (!engine) return std::unexpected(Line(options.directory, engine.error()));
  return std::make_unique<GroupCommitLedger>(std::move(*engine), clock);
}

}  // namespace recourse
