// What `recourse report` tells, computed from the events of the ledger. Pure, in bounded memory.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "filters/ledger/model/event.h"
#include "policy/model/policy.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// Wall time in ms since 1970: from `since` on, before `until`.
struct ReportPeriod {
  std::int64_t since_ms = 0;
  std::int64_t until_ms = 0;
};

struct ReportExample {
  std::uint64_t first = 0, repeat = 0;  // operations
  std::int64_t between_ms = 0;
  std::string first_trace, repeat_trace, path;
};

// Repeats of one tool's calls that reached the backend.
struct DuplicateLine {
  std::string tool;
  std::uint64_t repeats = 0;
  std::uint64_t double_effects = 0;    // the call and its repeat both took effect
  std::uint64_t possible_effects = 0;  // the outcome of one of them, or of both, is not known
  std::int64_t min_ms = 0, median_ms = 0, max_ms = 0;
  std::map<std::string, std::uint64_t> verdicts;
  std::vector<ReportExample> examples;
};

struct UnknownLine {
  std::string tool, cause;
  std::uint64_t calls = 0;
  std::uint64_t open = 0;     // not settled at the end of the period
  std::uint64_t example = 0;  // operation
};

// Calls that went on to their backend, and that enforce would have asked a human about first.
struct HeldLine {
  std::string tool, verdict;
  std::uint64_t calls = 0;
  std::uint64_t example = 0;  // operation
};

struct WithoutUndoLine {
  std::string tool, why;
  std::uint64_t calls = 0;
  bool is_explained = false;  // the policy states a reason
};

struct UnlistedLine {
  std::string backend, effect, method, path;  // path: its shape
  std::uint64_t calls = 0;
};

// Calls of observe mode that enforce would have refused.
struct RefusedLine {
  std::string backend, effect, method, path;  // path: its shape
  std::string reason;                         // a slug, and what it means here
  std::uint64_t calls = 0;
};

struct KeyLine {
  std::string tool, trouble;
  std::uint64_t calls = 0;
  std::uint64_t example = 0;  // operation
};

struct Report {
  ReportPeriod period;
  std::uint64_t events = 0;                       // that were read
  std::uint64_t calls = 0;                        // sent to backends
  std::map<std::string, std::uint64_t> outcomes;  // operations by phase at the end of the period
  std::map<std::string, std::uint64_t> verdicts;  // of observe mode
  std::uint64_t repeats = 0, double_effects = 0, possible_effects = 0;
  std::vector<DuplicateLine> duplicates;  // every list: what costs most comes first
  std::vector<UnknownLine> unknown;
  std::vector<HeldLine> held;
  std::vector<WithoutUndoLine> without_undo;
  std::vector<UnlistedLine> unlisted;
  std::vector<RefusedLine> refused;
  std::vector<KeyLine> keys;
  bool is_cut = false;  // a bound was reached: counts are right, details are not complete
};

// Takes events in the order of their ids and keeps what a report needs: the state of the last
// kReportOperationsMax operations and kReportLinesMax lines per list.
class ReportBuilder {
 public:
  // The first event of an operation that began before the period; nullopt: not known.
  using FindFirst = std::function<std::optional<Event>(std::uint64_t operation)>;
  // Both outlive the builder.
  ReportBuilder(const Policy& policy, ReportPeriod period, FindFirst find_first)
      : policy_(policy), find_first_(std::move(find_first)) {
    report_.period = period;
  }

  // Events outside the period are left out.
  void Add(const Event& event);
  Report Finish();

 private:
  struct Operation {
    std::int64_t start_ms = 0;
    Phase phase = Phase::kNone;
    std::string trace, unknown_line;  // unknown_line: where its unknown outcome was counted
  };
  struct Pair {
    std::uint64_t first = 0, repeat = 0;
    std::string tool;
  };
  struct Duplicates {
    DuplicateLine line;
    std::vector<std::int64_t> gaps_ms;
  };
  struct Intent {
    std::string trace;
    std::int64_t wall_ms = 0;
  };

  void AddDispatch(const Event& event);
  void AddRepeat(const Event& event);
  void AddIntent(const Event& event);
  void AddOutcome(const Event& event, Operation& operation);
  void AddHeld(const Event& event);
  void AddRefused(const Event& event);
  void AddTrouble(const Event& event, const std::string& trouble);
  Operation& StateOf(const Event& event);
  const Operation* Known(std::uint64_t operation) const;
  void JudgePairs();
  std::string WhyNoUndo(const std::string& tool, bool* is_explained) const;
  template <class Line>
  Line* LineOf(std::map<std::string, Line>& lines, const std::string& name);

  const Policy& policy_;
  const FindFirst find_first_;
  Report report_;
  std::unordered_map<std::uint64_t, Operation> operations_;
  std::deque<std::uint64_t> order_;  // of operations_, oldest first
  std::vector<Pair> pairs_;
  std::unordered_map<Digest, Intent, DigestHash> intents_;
  std::map<std::string, Duplicates> duplicates_;
  std::map<std::string, UnknownLine> unknown_;
  std::map<std::string, HeldLine> held_;
  std::map<std::string, WithoutUndoLine> tools_;  // every tool that was called
  std::map<std::string, UnlistedLine> unlisted_;
  std::map<std::string, RefusedLine> refused_;
  std::map<std::string, KeyLine> keys_;
};

}  // namespace recourse
