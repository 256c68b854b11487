#include "filters/ledger/queries/flow_queries.h"

#include <map>
#include <string>
#include <utility>

#include "filters/ledger/model/open_flows.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// The book's clock is the wall clock of the rows: a pause longer than kFlowIdle ends a flow here as
// it did when the rows were written.
MonoTime At(std::int64_t wall_ms) { return MonoTime(Millis(wall_ms)); }

// Whose rows count.
struct FlowName {
  std::string caller, flow;
};

class History {
 public:
  History(std::optional<FlowName> only, std::size_t limit)
      : only_(std::move(only)),
        limit_(limit),
        book_([this](FlowState state) { Keep(std::move(state)); }) {}

  // False: the row cannot be read.
  bool Take(std::string_view bytes) {
    const auto row = ParseRow(bytes);
    if (!row) return false;
    if (row->head.kind == RowKind::kFlow) {
      FlowState state;
      if (!DecodeFlow(*row, state)) return false;
      if (Counts(state.caller, state.id)) book_.Apply(std::move(state), At(row->head.wall_ms));
    } else if (const auto news = NewsOf(*row); news && Counts(news->caller, news->flow)) {
      Close(row->head.wall_ms);
      TakeLate(*news);
      book_.Apply(*news, At(row->head.wall_ms));
    }
    return true;
  }

  std::map<std::uint64_t, FlowState> End(std::int64_t now_ms) {
    Close(now_ms);
    for (FlowState& state : book_.List(0, book_.size())) Keep(std::move(state));
    return std::move(flows_);
  }

 private:
  bool Counts(std::string_view caller, std::string_view flow) const {
    return !only_ || (only_->caller == caller && only_->flow == flow);
  }
  void Close(std::int64_t now_ms) {
    book_.CloseIdle(At(now_ms) - limits::kFlowIdle, limits::kFlowsMax, limits::kFlowsMax);
  }
  // A flow may be over before the outcome of every step is known.
  void TakeLate(const StepUpdate& news) {
    const auto late = late_.find(news.operation);
    if (late == late_.end()) return;
    const auto flow = flows_.find(late->second);
    late_.erase(late);
    if (flow == flows_.end()) return;
    for (FlowStep& step : flow->second.steps) {
      if (step.operation != news.operation) continue;
      step.phase = news.phase;
      step.has_undo = news.has_undo;
      if (StatusOf(news.phase) == Status::kSuccess) step.success = news.row;
      if (IsOpen(news.phase)) late_[news.operation] = flow->first;
    }
  }
  void Keep(FlowState state) {
    for (const FlowStep& step : state.steps) {
      if (IsFinal(state.phase) && IsOpen(step.phase)) late_[step.operation] = state.number;
    }
    flows_[state.number] = std::move(state);
    if (flows_.size() > limit_) flows_.erase(flows_.begin());
  }

  const std::optional<FlowName> only_;
  const std::size_t limit_;
  std::map<std::uint64_t, FlowState> flows_;     // by number
  std::map<std::uint64_t, std::uint64_t> late_;  // flows that are over by their open operations
  OpenFlows book_;
};

Result<std::map<std::uint64_t, FlowState>> Read(EventLog& log, std::uint64_t from, History history,
                                                std::int64_t now_ms) {
  const auto reader = log.NewReader();
  for (std::uint64_t next = from, last = log.last_seq(); next <= last;) {
    const std::uint64_t first = next;
    bool is_sound = true;
    const bool read =
        reader->Scan(next, limits::kScanChunkRows, [&](std::uint64_t seq, std::string_view bytes) {
          is_sound = history.Take(bytes);
          next = seq + 1;
          return is_sound && seq < last;
        });
    if (!read || !is_sound) {
      return std::unexpected(WhyUnread(log, next == first ? next : next - 1));
    }
    if (next == first) break;  // retention has removed the rest meanwhile
  }
  return history.End(now_ms);
}

}  // namespace

Result<std::optional<FlowState>> FindFlow(EventLog& log, std::uint64_t number,
                                          std::int64_t now_ms) {
  std::string bytes;
  std::optional<FlowName> only;
  // Without its first row every flow has to be followed.
  if (log.NewReader()->Read(number, bytes)) {
    const auto row = ParseRow(bytes);
    const auto news = row ? NewsOf(*row) : std::nullopt;
    if (!news || news->phase != Phase::kDispatching || news->undoes != 0) return std::nullopt;
    only = FlowName{std::string(news->caller), std::string(news->flow)};
  }
  const std::uint64_t begins = log.base().first_seq;
  auto flows = Read(log, only ? log.PlaceOf(number) : begins,
                    History(std::move(only), limits::kFlowsMax), now_ms);
  if (!flows) return std::unexpected(flows.error());
  const auto found = flows->find(number);
  if (found == flows->end()) return std::nullopt;
  return std::move(found->second);
}

Result<std::vector<FlowState>> NewestFlows(EventLog& log, std::size_t limit, std::int64_t now_ms) {
  auto flows = Read(log, log.base().first_seq, History(std::nullopt, limit), now_ms);
  if (!flows) return std::unexpected(flows.error());
  std::vector<FlowState> newest;
  for (auto& [number, state] : *flows) newest.push_back(std::move(state));
  return newest;
}

}  // namespace recourse
