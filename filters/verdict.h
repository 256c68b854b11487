// What an attempt's end proves about its effect, and the verdicts that all protocols share. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/upstream.h"
#include "policy/template/template.h"

namespace recourse {

// The status of a problem about what a backend answered.
inline constexpr int kBadGateway = 502;

struct Verdict {
  // What the answer tells of the call: all that a first one does; how things stand by now; nothing.
  enum class Tells : std::uint8_t { kAll, kLater, kNothing };
  Phase phase = Phase::kUncertain;
  Cause cause = Cause::kAnswer;
  int http_status = 0;  // of the backend's answer
  std::string detail;   // for people
  // Unset: the backend's answer goes to the caller as it is. Set: this problem of ours instead.
  std::optional<ErrorCode> problem;
  int problem_status = 0;        // 0: the problem's own status
  std::string_view proxy_error;  // empty: the problem's own token
  Tells tells = Tells::kAll;
};

// The phase is proven, but there may be no whole answer to pass on.
void ReplaceCutAnswer(const Answer& answer, Verdict& verdict);

// The answer does not tell whether it acted.
Verdict UnclearAnswer(const Answer& answer, Cause cause, std::string detail);

bool AnyHolds(const std::vector<Condition>& conditions, const CallValues& values);

// Whether all of a tool's `success_when` hold.
enum class Confirmed : std::uint8_t { kYes, kNo, kUnclear };
Confirmed JudgeSuccess(const Tool& tool, const CallValues& values);

}  // namespace recourse
