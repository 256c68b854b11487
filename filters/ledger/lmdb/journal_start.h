// The journal at a start: what the process before left in it comes into the log, and later, once
// nothing speaks against the ledger, a new generation begins.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>

#include "filters/ledger/lmdb/journal_file.h"
#include "filters/ledger/lmdb/ledger_directory.h"
#include "filters/ledger/lmdb/lmdb_event_log.h"
#include "filters/ledger/rows/event_log.h"

namespace recourse {

struct ReplayedJournal {
  std::unique_ptr<JournalFile> file;  // null: there is none that can be used
  std::uint64_t generation = 1;       // of the process that starts
  std::string lost;                   // why the newest rows are missing; empty: none are
};

// Brings rows that are in the journal alone into `log`, in one commit. It can be killed and
// repeated. Fails with a line for people.
std::expected<ReplayedJournal, std::string> ReplayJournal(const LedgerDirectory& directory,
                                                          LmdbEventLog& log);

// Begins a generation in the file that was found, or in a new one of a part of `map_bytes`; without
// a journal where the disk has no room for one. Fails with a line for people.
std::expected<std::unique_ptr<EventLog>, std::string> BeginJournal(
    LedgerDirectory& directory, std::unique_ptr<LmdbEventLog> log, ReplayedJournal replayed,
    std::uint64_t map_bytes);

}  // namespace recourse
