// One span on its way to the collector. It holds names of the policy and of fixed sets, ids and
// times: nothing that a request said, so no secret can be in it.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/limits.h"
#include "proxy/base/short_text.h"

namespace recourse {

// 32 and 16 lower-case hex digits; the first byte is '\0' where there is none.
struct TraceIdText {
  char text[33] = {};
  std::string_view view() const { return text; }
  void Set(std::string_view id) { text[id.copy(text, sizeof text - 1)] = '\0'; }
};
struct SpanIdText {
  char text[17] = {};
  std::string_view view() const { return text; }
  void Set(std::string_view id) { text[id.copy(text, sizeof text - 1)] = '\0'; }
};

using MethodText = ShortText<limits::kMethodBytesMax>;

struct Span {
  enum class Of : std::uint8_t { kCall, kAttempt, kProbe, kUndo, kResend };
  Of of = Of::kCall;
  TraceIdText trace, linked_trace;
  SpanIdText id, parent, linked;
  MonoTime began{}, ended{};
  std::shared_ptr<const Policy> policy;  // whose tool and backend these are
  const Tool* tool = nullptr;
  const Backend* backend = nullptr;
  MethodText method;
  PeerText peer;
  std::string_view effect;   // these three are of fixed sets
  std::string_view error;    // slug; empty: none
  std::string_view outcome;  // as in Recourse-Outcome
  std::string event;         // number in the ledger; empty: none
  std::string flow;          // as FlowLabel() has it; empty: none
  std::string_view rpc;      // the method of a message, of a fixed set; empty: it is none
  std::string_view called;   // the tool that it names, where the policy spells it out
  std::uint64_t operation = 0;
  int status = 0;
  int resend_count = 0;
  bool is_replayed = false;
  bool has_tool_error = false;
};

}  // namespace recourse
