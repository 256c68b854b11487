// Refuses tools that need a human, as long as none can be asked. Stands before the key is claimed,
// so a refused call leaves no operation behind.
#pragma once

#include "filters/filter.h"

namespace recourse {

// True when the tool's rule asks for a human: without `when` always, else when all of its
// conditions hold or one of them cannot be evaluated on this call.
bool NeedsApproval(const ApprovalRule& rule, const CallValues& values);

class ApprovalFilter final : public Filter {
 public:
  std::string_view name() const override { return "approval"; }
  // Answers 403 kApprovalUnavailable, also when the body that decides cannot be read.
  Task<Result<Outcome>> Handle(RequestContext& context, Next next) override;
};

}  // namespace recourse
