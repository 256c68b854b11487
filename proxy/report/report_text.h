// A report for scripts and for people.
#pragma once

#include <string>
#include <vector>

#include "filters/call/flow_counts.h"
#include "filters/observe/call_differences.h"
#include "proxy/base/json/json_shape.h"
#include "proxy/report/report.h"

namespace recourse {

// What the ledger does not know; counted by the process since its start.
struct ReportExtras {
  std::string mode;                   // enforce or observe
  std::string since, until, started;  // RFC 3339
  std::uint64_t not_recorded = 0;     // writes of observe mode missing from the ledger
  std::uint64_t replays = 0;          // repeats that were answered from the ledger
  std::uint64_t unlisted_other = 0;   // calls beyond the shapes that are counted one by one
  std::vector<UnlistedLine> unlisted_reads;
  FlowCounts flow_counts{};
  std::vector<RefusedLine> refused;  // reads, since `started`
  std::uint64_t refused_other = 0;   // beyond those that are counted one by one
  // Since `started`: calls that count as one with an earlier one, by a field in which they differ.
  std::vector<DifferenceLine> differences;
  std::uint64_t differences_other = 0;
};

// The answer of GET /report; its members are documented in README.md of this folder.
std::string ReportJson(const Report& report, const ReportExtras& extras);
JsonShape ReportShape();

// The same for a terminal, from the text that ReportJson wrote.
std::string ReportText(const Json& report);

// "250 ms", "1.2 s", "4 min 10 s", "3 h 5 min", "2 d 4 h". Negative counts as 0.
std::string SpanText(std::int64_t milliseconds);

}  // namespace recourse
