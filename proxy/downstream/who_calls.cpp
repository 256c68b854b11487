// Who makes the request at work, as the policy's `callers` names it.
#include "proxy/exchange/session.h"

namespace recourse {

void Session::Identify() {
  const auto values = [this](std::string_view name) {
    std::vector<std::string_view> found;
    for (std::size_t i = 0; i < head_.field_count; ++i) {
      const Field& field = head_.fields[i];
      if (EqualsIgnoreCase(field.name, name)) found.push_back(field.value);
    }
    return found;
  };
  who_ = ReadCaller(view_->policy->callers, identity_, is_certified_, values,
                    services_.clock->WallNow());
  caller_ = who_.name;
  record_.caller = caller_;
}

std::string Session::WhyNobody() const {
  if (who_.problem.empty()) return {};
  return "the call does not say who makes it, as `callers` of the policy asks: " + who_.problem;
}

void Session::CountUnknownCaller() {
  if (who_.problem.empty() || record_.effect.empty()) return;
  services_.metrics->CountUnknownCaller(record_.effect == "write");
}

}  // namespace recourse
