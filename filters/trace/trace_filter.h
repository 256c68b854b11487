// Gives every write a trace: the client's, or one made here. Only the client's may enter a key.
#pragma once

#include <array>
#include <cstddef>

#include "filters/filter.h"
#include "proxy/base/random.h"

namespace recourse {

class TraceFilter final : public Filter {
 public:
  // `random` outlives the filter.
  explicit TraceFilter(Random& random) : random_(random) {}
  std::string_view name() const override { return "trace"; }

  // Sets context.trace, unless the session has, with a parent id of ours and the outgoing
  // traceparent. Keeps tracestate only
  // beside a valid traceparent, as W3C asks.
  Task<Result<Outcome>> Handle(RequestContext& context, Next next) override;

 private:
  std::string RandomId(std::size_t bytes);

  Random& random_;
  // A call to `random_` costs as much for 256 bytes as for eight.
  std::array<unsigned char, 256> fresh_{};
  std::size_t used_ = fresh_.size();
};

}  // namespace recourse
