#include "filters/ledger/lmdb/journaled_event_log.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "proxy/base/check.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/short_turns.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

using Appended = std::expected<void, AppendError>;

// A row is in the journal alone for so long at most: a start reads little, and a quiet ledger is
// whole in data.mdb.
constexpr std::chrono::milliseconds kMoveAfter{250};
// One commit of LMDB moves a part of the ring, while the next records have the rest of it. The
// smaller the part, the shorter the bursts on the disk and on a core.
constexpr std::uint64_t kMoveParts = 8;
// A larger batch gains nothing from a second copy.
constexpr std::uint64_t kBatchParts = 2;
constexpr std::chrono::seconds kDrainWaitMax{30};
constexpr std::uint64_t kNoRow = std::numeric_limits<std::uint64_t>::max();

// What rows may take in LMDB: whole pages when they are large, half-filled ones when they are not.
std::uint64_t PagesOf(std::uint64_t bytes) {
  // A row just over half a page has a whole one, and its entry in a leaf.
  return bytes == 0 ? 0 : 2 * bytes + bytes / 16 + kPagesOfCommit;
}

RowBatch Merged(const std::vector<std::shared_ptr<const JournalRecord>>& records) {
  RowBatch batch;
  batch.first_seq = records.front()->first_seq;
  std::size_t bytes = 0;
  for (const auto& record : records) bytes += record->rows_bytes();
  batch.bytes.reserve(bytes);
  for (const auto& record : records) {
    for (std::size_t i = 0; i < record->rows(); ++i) {
      batch.bytes.append(record->row(i));
      batch.ends.push_back(batch.bytes.size());
    }
  }
  return batch;
}

}  // namespace

// First what is in memory alone: what is not there any more is in LMDB.
class JournaledEventLog::TailReader final : public EventLog::Reader {
 public:
  explicit TailReader(JournaledEventLog& log) : log_(log), moved_(log.log_->NewReader()) {}

  bool Read(std::uint64_t seq, std::string& row) override {
    std::uint64_t first = 0;
    const auto tail = log_.TailFrom(seq, 1, first);
    if (seq < first) return moved_->Read(seq, row);
    if (tail.empty()) return false;
    row = tail.front()->row(seq - tail.front()->first_seq);
    return true;
  }

  bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
    std::uint64_t first = 0;
    const auto tail = log_.TailFrom(from, rows_max, first);
    std::size_t left = rows_max;
    bool goes_on = true;
    if (from < first) {
      const auto visit_moved = [&](std::uint64_t seq, std::string_view row) {
        if (seq >= first) return false;
        --left;
        goes_on = visit(seq, row);
        return goes_on;
      };
      if (!moved_->Scan(from, rows_max, visit_moved)) return false;
    }
    for (const Record& record : tail) {
      for (std::size_t i = 0; i < record->rows() && goes_on && left > 0; ++i) {
        if (record->first_seq + i < from) continue;
        --left;
        goes_on = visit(record->first_seq + i, record->row(i));
      }
    }
    return true;
  }

 private:
  JournaledEventLog& log_;
  const std::unique_ptr<Reader> moved_;
};

JournaledEventLog::JournaledEventLog(std::unique_ptr<LmdbEventLog> log,
                                     std::unique_ptr<JournalFile> journal, std::uint64_t generation)
    : log_(std::move(log)),
      journal_(std::move(journal)),
      generation_(generation),
      last_seq_(log_->last_seq()),
      ring_(journal_ ? journal_->head().ring_bytes : 0) {
  if (!journal_) return;
  journal_->GoPastCache();
  thread_ = std::thread([this] { Run(); });
}

JournaledEventLog::~JournaledEventLog() {
  if (!journal_) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
  if (!failure_.empty() || is_unsure_) return;
  if (const auto closed = log_->SetJournal({generation_, false, journal_->head().id}); !closed) {
    Log(LogLevel::kWarn, "the journal stays open; the next start looks into it",
        {{"reason", closed.error()}});
    return;
  }
  (void)journal_->Stamp({generation_, JournalStep::kClosed});  // without it an older copy may pass
}

Appended JournaledEventLog::Append(const RowBatch& batch) {
  RC_CHECK(batch.first_seq == last_seq() + 1);
  if (has_failed()) return std::unexpected(Refusal());
  const Appended done = FitsJournal(batch) ? Journal(batch) : AppendDirect(batch);
  if (done && batch.size() > 0) {
    last_seq_.store(batch.first_seq + batch.size() - 1, std::memory_order_release);
  }
  return done;
}

// A row in the journal must find room in LMDB when it is moved, in one piece and whatever readers
// hold: only what lies behind the used part of the file is sure.
bool JournaledEventLog::FitsJournal(const RowBatch& batch) {
  if (!journal_ || batch.size() == 0 || batch.base || !batch.ages.empty()) return false;
  if (JournalBytesOf(batch) > journal_->head().ring_bytes / kBatchParts) return false;
  // The tail first: a row that moves meanwhile is counted twice rather than never.
  const std::uint64_t need =
      PagesOf(PendingBytes() + batch.bytes.size()) + limits::kSpaceSlackBytes;
  return log_->UnusedBytes(need) >= need;
}

Appended JournaledEventLog::AppendDirect(const RowBatch& batch) {
  if (const auto drained = Drain(last_seq(), Patience::kUntilItEnds); !drained) {
    return std::unexpected(AppendError{drained.error()});
  }
  Appended done = log_->Append(batch);
  if (!done && !done.error().is_full) Fail(done.error().reason);
  return done;
}

void JournaledEventLog::Refuse(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (refusal_.empty()) refusal_ = reason;
  has_failed_.store(true, std::memory_order_release);
}

void JournaledEventLog::Fail(const std::string& reason) {
  Refuse(reason);
  const std::lock_guard lock(mutex_);
  failure_ = reason;
  moved_.notify_all();
}

AppendError JournaledEventLog::Refusal() {
  const std::lock_guard lock(mutex_);
  return {refusal_};
}

Appended JournaledEventLog::Journal(const RowBatch& batch) {
  if (!log_->is_in_place() || !journal_->is_in_place()) {
    Refuse("data.mdb or journal was removed or replaced while it was in use");
    return std::unexpected(Refusal());
  }
  auto record = std::make_shared<const JournalRecord>(
      EncodeJournalRecord(journal_->head().id, generation_, batch));
  const auto at = TakePart(record->bytes.size());
  if (!at) return std::unexpected(Refusal());
  if (batch.has_dispatching) RC_CRASH_POINT("k04");
  if (batch.has_outcome) RC_CRASH_POINT("k11");
  if (auto written = journal_->Write(*at, record->bytes); !written) {
    Refuse(written.error());
    const std::lock_guard lock(mutex_);
    is_unsure_ = true;
    return std::unexpected(AppendError{refusal_});
  }
  bool is_awaited = false;
  {
    const std::lock_guard lock(mutex_);
    is_awaited = tail_.empty() || ring_.used() >= journal_->head().ring_bytes / kMoveParts;
    tail_bytes_ += record->rows_bytes();
    tail_.push_back(std::move(record));
  }
  if (is_awaited) work_.notify_one();
  return {};
}

std::optional<std::uint64_t> JournaledEventLog::TakePart(std::uint64_t size) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!failure_.empty()) return std::nullopt;
    if (const auto at = ring_.Take(size)) return at;
    is_hurried_ = true;
    work_.notify_one();
    moved_.wait(lock);
  }
}

std::expected<void, std::string> JournaledEventLog::Drain(std::uint64_t seq, Patience patience) {
  std::unique_lock lock(mutex_);
  const auto is_drained = [&] { return tail_.empty() || tail_.front()->first_seq > seq; };
  if (!is_drained()) {
    is_hurried_ = true;
    work_.notify_one();
    const auto is_over = [&] { return is_drained() || !failure_.empty(); };
    if (patience == Patience::kUntilItEnds) {
      moved_.wait(lock, is_over);
    } else if (!moved_.wait_for(lock, kDrainWaitMax, is_over)) {
      return std::unexpected("the disk has not taken the newest rows for 30 s; try again later");
    }
  }
  if (!failure_.empty()) return std::unexpected(failure_);
  return {};
}

std::uint64_t JournaledEventLog::PendingBytes() {
  const std::lock_guard lock(mutex_);
  return tail_bytes_;
}

LogSpace JournaledEventLog::Space(std::uint64_t need) {
  const std::uint64_t pending = PagesOf(PendingBytes());
  LogSpace space = log_->Space(need + pending);
  space.free_bytes -= std::min(space.free_bytes, pending);
  return space;
}

std::expected<std::unique_ptr<LedgerCopy>, std::string> JournaledEventLog::StartCopy() {
  if (const auto drained = Drain(last_seq(), Patience::kBounded); !drained) {
    return std::unexpected(drained.error());
  }
  return log_->StartCopy();
}

std::unique_ptr<EventLog::Reader> JournaledEventLog::NewReader() {
  return std::make_unique<TailReader>(*this);
}

std::vector<JournaledEventLog::Record> JournaledEventLog::TailFrom(std::uint64_t from,
                                                                   std::size_t rows_max,
                                                                   std::uint64_t& first) {
  std::vector<Record> found;
  const std::lock_guard lock(mutex_);
  first = tail_.empty() ? kNoRow : tail_.front()->first_seq;
  auto at = std::upper_bound(
      tail_.begin(), tail_.end(), from,
      [](std::uint64_t seq, const Record& record) { return seq <= record->last_seq(); });
  for (std::uint64_t rows = 0; at != tail_.end() && rows < rows_max; ++at) {
    rows += (*at)->last_seq() + 1 - std::max(from, (*at)->first_seq);
    found.push_back(*at);
  }
  return found;
}

void JournaledEventLog::Run() {
  NameThread("recourse-mover");
  TakeShortTurns();  // it moves hundreds of rows at once, beside threads whose callers wait
  std::unique_lock lock(mutex_);
  while (failure_.empty()) {
    work_.wait(lock, [this] { return is_stopping_ || !tail_.empty(); });
    if (tail_.empty()) return;
    work_.wait_for(lock, kMoveAfter, [this] {
      return is_stopping_ || is_hurried_ ||
             ring_.used() >= journal_->head().ring_bytes / kMoveParts;
    });
    MoveTail(lock);
  }
}

void JournaledEventLog::MoveTail(std::unique_lock<std::mutex>& lock) {
  std::vector<Record> records(tail_.begin(), tail_.end());
  is_hurried_ = false;
  lock.unlock();
  const RowBatch batch = Merged(records);
  RC_CRASH_POINT("k26");
  const Appended moved = log_->Append(batch);
  RC_CRASH_POINT("k27");
  if (!moved) {
    Log(LogLevel::kError, "rows of the journal cannot be moved into data.mdb; a restart does it",
        {{"reason", moved.error().reason}});
    Fail(moved.error().reason);
  }
  lock.lock();
  if (!moved) return;
  tail_.erase(tail_.begin(), tail_.begin() + static_cast<std::ptrdiff_t>(records.size()));
  ring_.Release(records.size());
  tail_bytes_ -= batch.bytes.size();
  moved_.notify_all();
  lock.unlock();
  records.clear();  // hundreds of blocks to free, which nobody has to wait for
  lock.lock();
}

}  // namespace recourse
