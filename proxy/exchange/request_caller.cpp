#include "proxy/exchange/request_caller.h"

#include <string_view>

#include "proxy/base/http/http_message.h"

namespace recourse {

void RequestCaller::Identify(const CallersRule& rule, const Head& head, WallTime now) {
  facts_ = By(rule, head, now);
  name_ = facts_.name;
}

Caller RequestCaller::By(const CallersRule& rule, const Head& head, WallTime now) const {
  const auto values = [&head](std::string_view name) {
    std::vector<std::string_view> found;
    for (std::size_t i = 0; i < head.field_count; ++i) {
      const Field& field = head.fields[i];
      if (EqualsIgnoreCase(field.name, name)) found.push_back(field.value);
    }
    return found;
  };
  return ReadCaller(rule, identity_, values, now);
}

std::vector<Caller::Earlier> RequestCaller::Earlier(const CallersRule& rule) const {
  return rule.names_any() ? facts_.earlier : ReadCaller({}, identity_, {}, {}).earlier;
}

std::string RequestCaller::WhyNobody() const {
  if (facts_.problem.empty()) return {};
  return "the call does not say who makes it, as `callers` of the policy asks: " + facts_.problem;
}

}  // namespace recourse
