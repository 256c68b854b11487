#include "proxy/inject/pod_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/language/config_reader.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::string_view kGroup = "recourse.dev/";
constexpr std::string_view kWords[] = {"inject",     "policy-configmap", "ledger",
                                       "ledger-max", "log-level",        "containers"};

// A DNS subdomain (RFC 1123), as objects of Kubernetes are named.
bool IsObjectName(std::string_view text) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (text.empty() || text.size() > 253 || !is_plain(text.front()) || !is_plain(text.back())) {
    return false;
  }
  return std::ranges::all_of(text, [&](char c) { return is_plain(c) || c == '-' || c == '.'; });
}

std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    std::string_view part = text.substr(at, end - at);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.emplace_back(part);
    at = end + 1;
  }
  return parts;
}

std::string Joined() {
  std::string all;
  for (const std::string_view word : kWords) {
    all.append(all.empty() ? "" : ", ").append(kGroup).append(word);
  }
  return all;
}

// Takes one annotation; gives what is accepted when its value is none.
std::string_view Take(PodOptions& options, std::string_view word, const std::string& value) {
  options.has_more = options.has_more || word != "inject";
  if (word == "inject") {
    options.is_asked = value == "true";
    return value == "true" || value == "false" ? "" : "\"true\" or \"false\"";
  }
  if (word == "policy-configmap") {
    options.policy = value;
    return IsObjectName(value) ? "" : "the name of a ConfigMap in the pod's namespace";
  }
  if (word == "ledger") {
    options.ledger = value;
    return "";  // what there is, the template knows
  }
  if (word == "ledger-max") {
    options.ledger_max = value;
    return ParseByteCount(value).value_or(0) >= std::uint64_t{1} << 20
               ? ""
               : "1MiB to 16TiB, such as 8GiB";
  }
  if (word == "log-level") {
    options.log_level = value;
    return LogLevelFromName(value) ? "" : "debug, info, warn or error";
  }
  options.containers = SplitAtCommas(value);
  return std::ranges::all_of(*options.containers, IsObjectName)
             ? ""
             : "names of the pod's containers, by commas";
}

}  // namespace

std::expected<PodOptions, std::string> ReadPodOptions(const Json& pod) {
  PodOptions options;
  const Json* const annotations = AtPointer(pod, "/metadata/annotations");
  if (annotations == nullptr) return options;
  for (const auto& [name, value] : annotations->members) {
    if (!name.starts_with(kGroup)) continue;
    const std::string_view word = std::string_view(name).substr(kGroup.size());
    if (std::ranges::find(kWords, word) == std::end(kWords)) {
      return std::unexpected(
          fmt::format("the annotation {} is not one of {}: correct it", name, Joined()));
    }
    const std::string_view accepted = Take(options, word, value.text);
    if (!accepted.empty()) {
      return std::unexpected(fmt::format("the annotation {} has the value '{}'; accepted: {}", name,
                                         value.text, accepted));
    }
  }
  return options;
}

}  // namespace recourse
