#include "filters/ledger/rows/earlier_no.h"

#include <fmt/format.h>

#include <algorithm>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/crypto/sha256.h"

namespace recourse {

Digest KeyOfNo(std::string_view caller, std::string_view tool, const Digest& args_hash) {
  return Sha256Sum()
      .Add("recourse-no")
      .AddPart(caller)
      .AddPart(tool)
      .AddPart(AsView(args_hash))
      .End();
}

Digest KeyOfNo(std::string_view caller, std::string_view tool) {
  return Sha256Sum().Add("recourse-no-to-tool").AddPart(caller).AddPart(tool).End();
}

const ApprovalDecision* NoTo(const Event& event) {
  if (event.phase != Phase::kDenied || !event.approval) return nullptr;
  const auto& all = event.approval->decisions;
  const auto no = std::find_if(all.rbegin(), all.rend(), [](const ApprovalDecision& one) {
    return one.kind == ApprovalDecision::Kind::kRejected && !one.is_late;
  });
  return no == all.rend() ? nullptr : &*no;
}

std::string TextOfNo(const Event& event, const ApprovalDecision& no) {
  return fmt::format("{} said no to this tool with other arguments, operation {}{}{}", no.who,
                     PrintRowId(event.operation), no.reason.empty() ? "" : ": ", no.reason);
}

}  // namespace recourse
