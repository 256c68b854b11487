// The chain of filters that every write passes. Order and reasons: filters/chain/chain.cpp.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "filters/call_context.h"

namespace recourse {

class Filter;
using FilterChain = std::vector<std::unique_ptr<Filter>>;

// What one attempt or the rest of the chain came to: a backend's answer, or why there is none.
// `local` is set when a filter answered by itself (replay, refusal).
struct Outcome {
  std::optional<WriteAnswer> local;
  Answer answer;
};

// What a filter answers by itself.
inline Outcome LocalOutcome(WriteAnswer answer) {
  Outcome outcome;
  outcome.local = std::move(answer);
  return outcome;
}

// The rest of the chain; a view, cheap to copy.
class Next {
 public:
  explicit Next(std::span<const std::unique_ptr<Filter>> rest) : rest_(rest) {}
  Task<Result<Outcome>> operator()(RequestContext& context) const;

 private:
  std::span<const std::unique_ptr<Filter>> rest_;
};

// Filters keep no per-request state and know no other filter.
class Filter {
 public:
  virtual ~Filter() = default;
  virtual std::string_view name() const = 0;
  // Either answers by itself, or returns next(context).
  virtual Task<Result<Outcome>> Handle(RequestContext& context, Next next) = 0;
};

inline Task<Result<Outcome>> Next::operator()(RequestContext& context) const {
  RC_CHECK(!rest_.empty());
  return rest_.front()->Handle(context, Next(rest_.subspan(1)));
}

}  // namespace recourse
