#include "filters/ledger/lmdb/journal_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "filters/ledger/lmdb/journal_replay.h"
#include "filters/ledger/lmdb/journaled_event_log.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/log/log.h"
#include "proxy/base/random.h"

namespace recourse {
namespace {

constexpr char kJournalFile[] = "journal";
constexpr char kNewName[] = "journal.new";
constexpr char kLostName[] = "journal.lost";
constexpr int kLostMax = 9;
constexpr std::uint64_t kPart = 64;  // of the ledger, and of the free disk, at most

using Done = std::expected<void, std::string>;

// Hash of the newest row; zeros of an empty log.
std::expected<Digest, std::string> HashOfLast(LmdbEventLog& log) {
  if (log.last_seq() == 0) return Digest{};
  std::string row;
  if (!log.NewReader()->Read(log.last_seq(), row) || !ParseRow(row)) {
    return std::unexpected(
        fmt::format("row {} is damaged; restore the directory from a backup", log.last_seq()));
  }
  return RowHash(row);
}

// What to do about a journal that cannot be used as it lies there.
std::string_view Advice(const JournalState& state) {
  return state.is_open ? "; it may hold the newest rows: copy what can be read of the directory to "
                         "a sound disk, or restore it from a backup"
                       : "; it holds no row that data.mdb has not: move it away, and start again";
}

Done MoveRows(LmdbEventLog& log, const ReplayPlan& plan) {
  if (plan.is_torn) {
    Log(LogLevel::kInfo,
        "a record of the journal is not whole: it was being written when the process ended, and "
        "nobody was told that it is durable");
  }
  if (plan.rows.size() == 0) return {};
  if (const auto moved = log.Append(plan.rows); !moved) {
    return std::unexpected(
        fmt::format("the rows of its journal cannot be moved into data.mdb: {}; "
                    "is the disk full, or --ledger-max too small?",
                    moved.error().reason));
  }
  Log(LogLevel::kInfo, "rows of the journal were moved into data.mdb",
      {{"first_row", std::to_string(plan.rows.first_seq)},
       {"rows", std::to_string(plan.rows.size())}});
  return {};
}

// Made whole beside its place; its name is durable before the log says that it is open.
std::expected<std::unique_ptr<JournalFile>, std::string> MakeJournal(LedgerDirectory& directory,
                                                                     const Digest& ledger,
                                                                     std::uint64_t map_bytes,
                                                                     const JournalStamp& stamp) {
  JournalHead head;
  head.ledger = ledger;
  SystemRandom().Fill(head.id);
  const std::uint64_t wanted =
      std::clamp(map_bytes / kPart, kJournalRingBytesMin, kJournalRingBytesMax);
  head.ring_bytes =
      std::min(wanted, directory.FreeBytes() / kPart) / kJournalBlockBytes * kJournalBlockBytes;
  if (head.ring_bytes < kJournalRingBytesMin) {
    return std::unexpected("the disk has less than 16 MiB free");
  }
  if (Done removed = directory.Remove(kNewName); !removed) return std::unexpected(removed.error());
  Done done = JournalFile::Make(directory.PathOf(kNewName), head);
  if (done) done = directory.Rename(kNewName, kJournalFile);
  if (done) done = directory.Sync();
  if (!done) return std::unexpected(done.error());
  auto made = JournalFile::Open(directory.PathOf(kJournalFile), ledger);
  if (!made || !*made) return made;
  if (!(*made)->Lock()) return nullptr;
  if (done = (*made)->Stamp(stamp); !done) return std::unexpected(done.error());
  return made;
}

// It may be all that is left of the rows, and somebody may yet find the data.mdb that fits it.
// Those of earlier losses stay.
Done KeepLost(LedgerDirectory& directory) {
  if (!directory.Has(kJournalFile)) return {};
  std::string name = kLostName;
  for (int i = 2; directory.Has(name); ++i) {
    if (i > kLostMax) return {};
    name = fmt::format("{}.{}", kLostName, i);
  }
  const Done kept = directory.Rename(kJournalFile, name);
  return kept ? directory.Sync() : kept;
}

// For a journal whose rows the log has, on a disk that does not take its stamp.
Done LeaveJournal(LmdbEventLog& log, ReplayedJournal& replayed, const std::string& reason) {
  Log(LogLevel::kWarn, "the journal is made anew, as it cannot be written", {{"reason", reason}});
  JournalState state = log.journal();
  state.is_open = false;  // a kill before there is a new one leaves nothing that is missed
  replayed.file.reset();
  return log.SetJournal(state);
}

}  // namespace

std::expected<ReplayedJournal, std::string> ReplayJournal(const LedgerDirectory& directory,
                                                          LmdbEventLog& log) {
  auto file = JournalFile::Open(directory.PathOf(kJournalFile), log.identity());
  const JournalState state = log.journal();
  if (!file) return std::unexpected(file.error().append(Advice(state)));
  if (*file && !(*file)->Lock()) {
    return std::unexpected(
        "its journal is in use by another process: is another recourse running on this directory?");
  }
  std::expected<RingBytes, std::string> ring = std::unexpected("");
  std::optional<JournalContent> content;
  if (*file) {
    ring = (*file)->ReadRing();
    if (ring) {
      content = JournalContent{(*file)->head().id, (*file)->stamp(), ring->view()};
    } else if (state.is_open) {
      return std::unexpected(ring.error().append(Advice(state)));
    } else {
      file->reset();  // nothing is missed in it
    }
  }
  Digest hash{};
  if (state.is_open) {
    const auto last = HashOfLast(log);
    if (!last) return std::unexpected(last.error());
    hash = *last;
  }
  const ReplayPlan plan = PlanReplay(state, content, log.last_seq(), hash);
  if (!plan.unreadable.empty()) {
    return std::unexpected(plan.unreadable +
                           "; start the version that wrote it, and stop that before this one is "
                           "started");
  }
  if (Done moved = MoveRows(log, plan); !moved) return std::unexpected(moved.error());
  if (!content || content->id != state.id) file->reset();
  return ReplayedJournal{std::move(*file), plan.generation, plan.lost};
}

std::expected<std::unique_ptr<EventLog>, std::string> BeginJournal(
    LedgerDirectory& directory, std::unique_ptr<LmdbEventLog> log, ReplayedJournal replayed,
    std::uint64_t map_bytes) {
  const JournalStamp announced{replayed.generation, JournalStep::kAnnounced};
  if (!replayed.lost.empty()) {
    replayed.file.reset();
    if (Done kept = KeepLost(directory); !kept) return std::unexpected(kept.error());
  }
  if (replayed.file) {
    if (Done stamped = replayed.file->Stamp(announced); !stamped) {
      Done left = LeaveJournal(*log, replayed, stamped.error());
      if (!left) return std::unexpected("it cannot be written: " + left.error());
    }
  }
  if (!replayed.file) {
    auto made = MakeJournal(directory, log->identity(), map_bytes, announced);
    if (made && *made) {
      replayed.file = std::move(*made);
    } else {
      Log(LogLevel::kWarn, "the ledger works without a journal, which costs time at every commit",
          {{"reason", made ? "it was replaced while it was made" : made.error()}});
    }
  }
  JournalState state{replayed.generation, replayed.file != nullptr, {}};
  if (replayed.file) state.id = replayed.file->head().id;
  if (const Done noted = log->SetJournal(state); !noted) {
    return std::unexpected("it cannot be written: " + noted.error());
  }
  if (replayed.file) {
    Done begun = replayed.file->Stamp({state.generation, JournalStep::kBegun});
    if (!begun) {
      return std::unexpected(begun.error() + "; start again, which makes it anew elsewhere");
    }
  }
  return std::make_unique<JournaledEventLog>(std::move(log), std::move(replayed.file),
                                             replayed.generation);
}

}  // namespace recourse
