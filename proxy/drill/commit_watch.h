// A log that counts its commits, tells of each, and ends the process at one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "filters/ledger/rows/event_log.h"

namespace recourse {

// One row of a commit, as the drill names it.
struct RowNote {
  std::uint64_t operation = 0;  // 0: a row of a flow
  std::uint64_t undoes = 0;     // the operation that this one undoes; 0: none
  std::string phase;            // of the operation or the flow
};

// The rows of a batch that say something of an operation or of a flow.
std::vector<RowNote> NotesOf(const RowBatch& batch);

// `before` and `after` are called around every commit that has such rows, on the ledger's thread:
// the first when nothing of it is durable, the second when all of it is and nobody was told yet.
struct CommitWatch {
  std::function<void(const std::vector<RowNote>&)> before, after;
};
std::unique_ptr<EventLog> WatchCommits(std::unique_ptr<EventLog> log, CommitWatch watch);

}  // namespace recourse
