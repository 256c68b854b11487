#include "filters/ledger/lmdb/journal_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "filters/ledger/rows/row_codec.h"

namespace recourse {
namespace {

struct Scan {
  std::vector<FoundRecord> records;  // of the log's generation, with rows that it has not
  std::vector<FoundRecord> torn;     // likewise, and not whole
  std::uint64_t newest_generation = 0;
};

// Every record begins with a block, so whoever overwrote the beginning of an older one hides it.
Scan ScanRing(const JournalContent& content, const JournalState& state, std::uint64_t last) {
  Scan scan;
  std::string_view left = content.ring;
  while (left.size() >= kJournalBlockBytes) {
    FoundRecord found;
    const JournalBlock kind = DecodeJournalRecord(left, content.id, found);
    const bool is_ours = found.generation == state.generation;
    std::uint64_t step = kJournalBlockBytes;
    if (kind == JournalBlock::kRecord) {
      scan.newest_generation = std::max(scan.newest_generation, found.generation);
      step = std::min<std::uint64_t>(found.bytes, left.size());
      if (is_ours && found.first_seq + found.rows.size() > last + 1) {
        scan.records.push_back(std::move(found));
      }
    } else if (kind == JournalBlock::kTorn && is_ours && found.first_seq > last) {
      scan.torn.push_back(std::move(found));
    }
    left.remove_prefix(step);
  }
  std::sort(scan.records.begin(), scan.records.end(),
            [](const FoundRecord& a, const FoundRecord& b) { return a.first_seq < b.first_seq; });
  return scan;
}

// Whether every row of it follows on row `seq` with hash `hash`, which move on to its last one.
bool Follows(const FoundRecord& record, std::uint64_t& seq, Digest& hash, ReplayPlan& plan) {
  if (record.first_seq != seq + 1) return false;
  for (const std::string_view bytes : record.rows) {
    const auto row = ParseRow(bytes);
    // The record is sound, so this is no damage.
    if (!row) {
      plan.unreadable = fmt::format("row {} of its journal is unknown ({})", seq + 1, row.error());
      return false;
    }
    if (row->head.seq != seq + 1 || row->head.prev_hash != hash) return false;
    ++seq;
    hash = RowHash(bytes);
  }
  return true;
}

// Adds what follows on the log, and says what does not.
void TakeRecords(const Scan& scan, std::uint64_t seq, Digest hash, ReplayPlan& plan) {
  for (const FoundRecord& record : scan.records) {
    const std::uint64_t before = seq;
    if (!Follows(record, seq, hash, plan)) {
      plan.lost = fmt::format(
          "the journal holds rows from {} on that do not follow on row {}, where the rows before "
          "them end",
          record.first_seq, before);
      return;
    }
    for (const std::string_view row : record.rows) {
      plan.rows.bytes.append(row);
      plan.rows.ends.push_back(plan.rows.bytes.size());
    }
  }
  plan.is_torn = !scan.torn.empty();
  // One at a time is written: what is damaged besides the next one was confirmed.
  if (scan.torn.size() > 1 || (plan.is_torn && scan.torn.front().first_seq != seq + 1)) {
    plan.lost = fmt::format("records of the journal behind row {} are damaged", seq);
  }
}

// Whether the journal tells of what only a later state of the log knows. Generations go on when a
// journal is made anew, so this may be another one than that of the log.
bool IsAhead(const JournalContent& content, const Scan& scan, const JournalState& state) {
  const JournalStamp& stamp = content.stamp;
  // That of a start that was killed before the log noted it is one ahead.
  const std::uint64_t ahead = stamp.step == JournalStep::kAnnounced ? 1 : 0;
  return scan.newest_generation > state.generation || stamp.generation > state.generation + ahead;
}

}  // namespace

ReplayPlan PlanReplay(const JournalState& state, const std::optional<JournalContent>& content,
                      std::uint64_t last, const Digest& hash) {
  ReplayPlan plan;
  plan.rows.first_seq = last + 1;
  plan.generation = state.generation + 1;
  const Scan scan = content ? ScanRing(*content, state, last) : Scan();
  if (content && IsAhead(*content, scan, state)) {
    plan.generation = std::max(scan.newest_generation, content->stamp.generation) + 1;
    plan.lost = "the journal tells of a later time than data.mdb, which is an older copy";
  } else if (!content || content->id != state.id) {
    if (state.is_open) {
      plan.lost =
          "the journal that may have held newer rows is missing or damaged (a backup has none)";
    }
  } else if (state.is_open && content->stamp.generation < state.generation) {
    plan.lost = "the journal is older than data.mdb, or damaged";
  } else if (state.is_open) {
    TakeRecords(scan, last, hash, plan);
    if (content->stamp.step == JournalStep::kClosed && plan.lost.empty()) {
      plan.lost = "the journal was closed by the data.mdb that this one is an older copy of";
    }
  } else if (!scan.records.empty()) {
    plan.lost = "the journal holds rows that data.mdb, which closed it, has not";
  }
  return plan;
}

}  // namespace recourse
