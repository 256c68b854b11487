#include "proxy/base/http/field_reach.h"

#include <algorithm>

#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

constexpr std::string_view kForwardedFields[] = {"forwarded", "x-real-ip"};
constexpr std::string_view kTakenOutFields[] = {"connection",
                                                "content-length",
                                                "expect",
                                                "host",
                                                "http2-settings",
                                                "idempotent-replayed",
                                                "keep-alive",
                                                "proxy-authenticate",
                                                "proxy-authorization",
                                                "proxy-connection",
                                                "te",
                                                "trailer",
                                                "transfer-encoding",
                                                "upgrade"};
// What an agent tells us, of the fields that begin with our name.
constexpr std::string_view kOwnOfAgents[] = {"recourse-flow", "recourse-intent",
                                             "recourse-session"};

template <class Names>
bool IsAmongFields(const Names& names, std::string_view name) {
  return std::ranges::any_of(
      names, [name](std::string_view each) { return EqualsIgnoreCase(each, name); });
}

// And is longer than that.
bool BeginsLonger(std::string_view name, std::string_view with) {
  return name.size() > with.size() && EqualsIgnoreCase(name.substr(0, with.size()), with);
}

}  // namespace

FieldReach ReachOf(std::string_view name) {
  if (BeginsLonger(name, "x-forwarded-") || IsAmongFields(kForwardedFields, name))
    return FieldReach::kPolicy;
  const bool is_ours = BeginsLonger(name, "recourse-") && !IsAmongFields(kOwnOfAgents, name);
  return is_ours || IsAmongFields(kTakenOutFields, name) ? FieldReach::kNowhere
                                                         : FieldReach::kBackend;
}

}  // namespace recourse
