// How a request came here; the names are in the access log and label a metric.
#pragma once

#include <cstdint>
#include <string_view>

namespace recourse {

enum class IngressMode : std::uint8_t {
  kReverse,   // to us, as if we were the backend
  kForward,   // to us as a proxy
  kRedirect,  // to somebody else, before a rule of the kernel led it here
};
inline constexpr int kIngressModes = 3;

constexpr std::string_view NameOf(IngressMode way) {
  switch (way) {
    case IngressMode::kForward:
      return "forward";
    case IngressMode::kRedirect:
      return "redirect";
    default:
      return "reverse";
  }
}

}  // namespace recourse
