// Says which calls need a human. What they need is kept with their operation, which waits in the
// ledger (Begun::kHeld); what humans decide is carried out by the ApprovalRunner.
#pragma once

#include "filters/filter.h"

namespace recourse {

class ApprovalFilter final : public Filter {
 public:
  std::string_view name() const override { return "approval"; }
  // Sets context.needs_approval, also when the body that decides cannot be read. Answers 413 when
  // the request is too large to be kept until somebody has decided.
  Task<Result<Outcome>> Handle(RequestContext& context, Next next) override;

 private:
  static Task<Result<Outcome>> JudgeApart(RequestContext& context, Next next);
};

}  // namespace recourse
