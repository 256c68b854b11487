#include "proxy/inject/pod_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "policy/language/config_reader.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::string_view kGroup = "recourse.dev/";
constexpr std::string_view kWords[] = {
    "inject",      "policy-configmap", "ledger",         "ledger-max",   "log-level", "containers",
    "cpu-request", "cpu-limit",        "memory-request", "memory-limit", "ports"};
constexpr std::string_view kPorts[] = {"proxy", "admin", "probes", "redirect"};
constexpr std::uint64_t kPortMin = 1024, kPortMax = 65535;

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

// A quantity of Kubernetes that is more than nothing: a number and one of the suffixes.
bool IsQuantity(std::string_view text, std::initializer_list<std::string_view> suffixes) {
  const auto end = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, end);
  const std::string_view suffix = end == std::string_view::npos ? "" : text.substr(end);
  return number.find_first_of("123456789") != std::string_view::npos && number.front() != '.' &&
         number.back() != '.' && std::ranges::count(number, '.') <= 1 &&
         std::ranges::find(suffixes, suffix) != suffixes.end();
}

bool TakePorts(PodOptions& options, const std::string& value) {
  for (const std::string& part : SplitAtCommas(value)) {
    const auto equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    const std::string number = equals == part.size() ? "" : part.substr(equals + 1);
    std::uint64_t port = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), port);
    const bool is_number = error == std::errc() && end == number.data() + number.size();
    if (!is_number || port < kPortMin || port > kPortMax) return false;
    if (std::ranges::find(kPorts, name) == std::end(kPorts)) return false;
    options.ports.emplace_back(name, number);
  }
  return true;
}

// cpu-request and its like.
std::string_view TakeResource(PodOptions& options, std::string_view word,
                              const std::string& value) {
  const bool is_cpu = word.starts_with("cpu");
  const std::string_view list = word.ends_with("request") ? "requests" : "limits";
  options.resources.emplace_back(fmt::format("{}/{}", list, is_cpu ? "cpu" : "memory"), value);
  if (is_cpu) return IsQuantity(value, {"", "m"}) ? "" : "a quantity such as 50m or 0.5";
  return IsQuantity(value, {"", "k", "M", "G", "Ki", "Mi", "Gi"}) ? "" : "a quantity such as 128Mi";
}

// Takes one annotation; gives what is accepted when its value is none.
std::string_view Take(PodOptions& options, std::string_view word, const std::string& value) {
  options.has_more = options.has_more || word != "inject";
  if (word == "inject") {
    options.is_asked = value == "true" || value == "enabled";
    const bool is_not = value == "false" || value == "disabled";
    return options.is_asked || is_not ? "" : "\"true\" or \"false\"";
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
  if (word == "ports") {
    return TakePorts(options, value) ? "" : "such as proxy=29080,admin=29081,probes=29082";
  }
  if (word != "containers") return TakeResource(options, word, value);
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
