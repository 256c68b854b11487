// Reads the state that a write is about to change, before the write is remembered and sent.
#pragma once

#include <optional>

#include "filters/call/call_values.h"
#include "filters/filter.h"
#include "filters/tracing.h"

namespace recourse {

class BeforeReader {
 public:
  // `tracing` may be null: traces are off.
  BeforeReader(Upstream& upstream, SpanSink* tracing, const Clock& clock)
      : upstream_(upstream), tracing_(tracing), clock_(clock) {}

  // One request with the credentials of the call, whose tool has a `before`. Sets context.before,
  // and context.needs_approval where the policy lets humans decide. What the agent is told when
  // that cannot be read and the policy refuses the call; nullopt: it goes on.
  Task<std::optional<Outcome>> Read(RequestContext& context, const CallBody& body) const;

 private:
  Task<Result<Answer>> Ask(RequestContext& context, HttpRequest request) const;

  Upstream& upstream_;
  SpanSink* const tracing_;
  const Clock& clock_;
};

}  // namespace recourse
