#include "proxy/doctor/judgement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "proxy/base/http/own_port.h"

namespace recourse {
namespace {

constexpr Millis kSlow{2'000};
constexpr std::chrono::microseconds kSlowFlush{20'000};
constexpr std::chrono::seconds kSkew{30};
constexpr std::uint64_t kLittleRoom = std::uint64_t{1} << 30;

Check CheckOf(std::string name, std::string subject, Check::Verdict verdict, std::string found,
              std::string mend = {}) {
  return {std::move(name), std::move(subject), verdict, std::move(found), std::move(mend)};
}

std::string SubjectOf(const Backend& backend) {
  return fmt::format("{} {}://{}:{}", backend.name, backend.scheme, backend.host, backend.port);
}

// The addresses that the backend's `addresses` does not let us call.
std::vector<std::string> RefusedOf(const Backend& backend, const BackendFacts& facts) {
  std::vector<std::string> refused;
  for (const std::string& text : facts.addresses) {
    const auto address = ParseIpAddress(text);
    if (address && !backend.addresses.Allow(*address)) {
      refused.push_back(text + " is " + std::string(NameOf(ClassOf(*address))));
    }
  }
  return refused;
}

bool GoesAround(std::string_view no_proxy, std::string_view host) {
  while (!no_proxy.empty()) {
    const auto end = std::min(no_proxy.find(','), no_proxy.size());
    std::string_view one = no_proxy.substr(0, end);
    no_proxy.remove_prefix(std::min(end + 1, no_proxy.size()));
    while (one.starts_with(' ') || one.starts_with('.')) one.remove_prefix(1);
    if (one == "*" || (!one.empty() && (host == one || host.ends_with("." + std::string(one))))) {
      return true;
    }
  }
  return false;
}

}  // namespace

Check JudgePort(const PortFacts& facts) {
  const std::string name = facts.wanted == kAgentsPort ? "agents' port" : facts.wanted + " port";
  if (!facts.failure.empty()) {
    return CheckOf(name, facts.address, Check::Verdict::kBad, facts.failure,
                   "start `recourse run`, or name its " + facts.flag + " with that option");
  }
  if (facts.said == facts.wanted)
    return CheckOf(name, facts.address, Check::Verdict::kGood, "answers");
  return CheckOf(name, facts.address, Check::Verdict::kBad,
                 facts.said.empty() ? fmt::format("somebody else listens there (GET {}: {})",
                                                  kPortPath, facts.status)
                                    : "is the port of --" + facts.said,
                 "give " + facts.flag + " of `recourse run`");
}

Check JudgeReady(const ReadyFacts& facts) {
  if (!facts.failure.empty()) {
    return CheckOf("ready", {}, Check::Verdict::kNotLooked, facts.failure,
                   "name --probes of `recourse run`");
  }
  std::string text = facts.text.substr(0, facts.text.find('\n'));
  if (facts.status != 200) {
    return CheckOf("ready", {}, Check::Verdict::kBad, std::move(text),
                   "see the log; recourse status");
  }
  const bool is_whole = text == "ready";
  return CheckOf("ready", {}, is_whole ? Check::Verdict::kGood : Check::Verdict::kDoubt,
                 std::move(text), is_whole ? "" : "mend that and restart");
}

Check JudgeOperator(const OperatorFacts& facts) {
  if (!facts.failure.empty()) {
    return CheckOf("operator", {}, Check::Verdict::kBad, facts.failure,
                   "name the file that `recourse run` has as --admin-token-file, or a token of "
                   "somebody in --operators");
  }
  return CheckOf("operator", facts.name, Check::Verdict::kGood,
                 fmt::format("may {}", fmt::join(facts.roles, ", ")));
}

Check JudgeBackend(const Backend& backend, const BackendFacts& facts) {
  const auto made = [&](Check::Verdict verdict, std::string found, std::string mend = {}) {
    return CheckOf("backend", SubjectOf(backend), verdict, std::move(found), std::move(mend));
  };
  if (facts.addresses.empty()) {
    return made(Check::Verdict::kBad, facts.resolve_failure,
                "is its name right in the policy, and does this machine's DNS know it?");
  }
  if (const auto refused = RefusedOf(backend, facts); refused.size() == facts.addresses.size()) {
    return made(Check::Verdict::kBad, fmt::format("{}", fmt::join(refused, ", ")),
                "if that is meant, list it in the backend's `addresses`");
  }
  if (!facts.tls_files_failure.empty()) {
    return made(Check::Verdict::kBad, facts.tls_files_failure, "mend the files of its `tls`");
  }
  if (facts.unreached) {
    return made(Check::Verdict::kBad,
                fmt::format("{}: {}", facts.addresses.back(), *facts.unreached),
                "is it running, does it listen at this address, and does a firewall or a "
                "NetworkPolicy let us through?");
  }
  if (!facts.http_failure.empty()) {
    return made(Check::Verdict::kBad, facts.http_failure,
                backend.scheme == "https"
                    ? "does it speak TLS on that port, and is its CA in `tls: { ca_file }`?"
                    : "does it speak plain HTTP/1.1 on that port, or does its url begin with "
                      "https?");
  }
  const bool is_slow = facts.first_byte > kSlow;
  return made(is_slow ? Check::Verdict::kDoubt : Check::Verdict::kGood,
              fmt::format("{}, connected in {} ms, {}first byte of a GET ({}) after {} ms",
                          fmt::join(facts.addresses, ", "), facts.connect.count(),
                          backend.scheme == "https" ? "TLS verified, " : "", facts.status,
                          facts.first_byte.count()),
              is_slow ? "is it overloaded? its `timeout` bounds what agents wait" : "");
}

Check JudgeDisk(const DiskFacts& facts) {
  const std::string subject = facts.directory;
  if (!facts.failure.empty()) {
    return CheckOf("disk", subject, Check::Verdict::kBad, facts.failure,
                   "let the user of `recourse run` write there, or name another --data");
  }
  if (!facts.refusal.empty()) {
    return CheckOf(
        "disk", subject, Check::Verdict::kBad,
        facts.file_system.empty() ? facts.refusal : facts.file_system + ": " + facts.refusal,
        "put --data on a local ext4, xfs or btrfs; --unsafe-fs for trying out");
  }
  std::string found =
      fmt::format("{}{}, {:.1f} GiB free, a flush takes {:.1f} ms",
                  facts.is_data ? "" : "(--data is made in it) ", facts.file_system,
                  static_cast<double>(facts.free_bytes) / double(std::uint64_t{1} << 30),
                  static_cast<double>(facts.flush.count()) / 1'000);
  if (facts.free_bytes < kLittleRoom) {
    return CheckOf("disk", subject, Check::Verdict::kDoubt, std::move(found),
                   "make room: writes are refused when it is full");
  }
  if (facts.flush > kSlowFlush) {
    return CheckOf("disk", subject, Check::Verdict::kDoubt, std::move(found),
                   "a write waits for two flushes: take a faster disk");
  }
  return CheckOf("disk", subject, Check::Verdict::kGood, std::move(found));
}

Check JudgeFiles(std::uint64_t files, std::uint64_t connections) {
  const std::uint64_t fit = files / 4 * 3;
  const std::string found = fmt::format("{} may be open, for {} connections", files, fit);
  return fit >= connections
             ? CheckOf("open files", {}, Check::Verdict::kGood, found)
             : CheckOf("open files", {}, Check::Verdict::kDoubt, found,
                       fmt::format("raise the hard limit (ulimit -Hn, LimitNOFILE) for all {} of "
                                   "--connections-max",
                                   connections));
}

Check JudgeClock(bool is_synchronized,
                 const std::vector<std::pair<std::string, std::chrono::seconds>>& dates) {
  for (const auto& [backend, ahead] : dates) {
    if (std::chrono::abs(ahead) < kSkew) continue;
    return CheckOf(
        "clock", {}, Check::Verdict::kDoubt,
        fmt::format("backend {} is {} s {} this machine", backend, std::chrono::abs(ahead).count(),
                    ahead.count() > 0 ? "ahead of" : "behind"),
        "set one of the two by NTP: deadlines, approvals and certificates go by the clock");
  }
  if (!is_synchronized) {
    return CheckOf("clock", {}, Check::Verdict::kDoubt,
                   dates.empty()
                       ? "the kernel does not know of any synchronization"
                       : "agrees with backends, but the kernel knows of no synchronization",
                   "run an NTP client (timedatectl); in a container that is the node's affair");
  }
  return CheckOf("clock", {}, Check::Verdict::kGood, "synchronized");
}

Check JudgeProxyVariables(const std::vector<std::pair<std::string, std::string>>& variables,
                          const std::string& listen, const Policy& policy) {
  std::string proxies, others, around;
  for (const auto& [name, value] : variables) {
    const bool is_exception = ToLower(name) == "no_proxy";
    if (is_exception) {
      for (const Backend& backend : policy.backends) {
        if (GoesAround(value, backend.host)) around += (around.empty() ? "" : ", ") + backend.name;
      }
      continue;
    }
    proxies += fmt::format("{}{}={}", proxies.empty() ? "" : ", ", name, value);
    if (value.find(listen) == std::string::npos) others += (others.empty() ? "" : ", ") + name;
  }
  if (proxies.empty()) {
    return CheckOf("HTTP_PROXY", {}, Check::Verdict::kGood,
                   "not set here: agents started here call the agents' port by its own address");
  }
  if (!others.empty()) {
    return CheckOf(
        "HTTP_PROXY", {}, Check::Verdict::kDoubt, proxies + ": not the agents' port " + listen,
        "agents started here call that proxy; `recourse env` prints what leads through us");
  }
  if (!around.empty()) {
    return CheckOf("HTTP_PROXY", {}, Check::Verdict::kDoubt,
                   proxies + ", and NO_PROXY leads around it to " + around,
                   "take these out of NO_PROXY");
  }
  return CheckOf("HTTP_PROXY", {}, Check::Verdict::kGood, proxies);
}

Check JudgeTraces(const TraceFacts& facts) {
  if (!facts.writes) {
    return CheckOf("traces", {}, Check::Verdict::kNotLooked, facts.why,
                   "name --probes of `recourse run`");
  }
  const auto [writes, alone] = *facts.writes;
  if (writes == 0) {
    return CheckOf("traces", {}, Check::Verdict::kNotLooked, "no write has come yet",
                   "have an agent make one, and ask again");
  }
  if (alone == 0) {
    return CheckOf("traces", {}, Check::Verdict::kGood,
                   fmt::format("each of {} writes has a flow", writes));
  }
  return CheckOf(
      "traces", {}, Check::Verdict::kDoubt,
      fmt::format("{} of {} writes came without a trace: each is a flow of its own", alone, writes),
      "have agents send traceparent (proxy/docs/agents.md), or set flow_rules.without_trace");
}

}  // namespace recourse
