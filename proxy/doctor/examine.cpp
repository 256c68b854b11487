#include "proxy/doctor/examine.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/timex.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <optional>

#include "policy/files/sources.h"
#include "policy/language/loader.h"
#include "policy/model/url.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/base/http/own_port.h"
#include "proxy/base/json/json.h"
#include "proxy/cli/api_call.h"
#include "proxy/cli/policy/operator_check.h"
#include "proxy/config/agent_env.h"
#include "proxy/doctor/disk_facts.h"
#include "proxy/doctor/judgement.h"
#include "proxy/net/beast/http_client.h"
#include "proxy/net/beast/reach.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {
namespace {

constexpr int kPatienceSeconds = 10;
constexpr std::string_view kNotAPort = "--probes is not HOST:PORT";

struct FetchedHead {
  std::string failure;
  HttpResponse response;
};

FetchedHead GetHead(const HttpPlace& place, const std::string& target) {
  // The head is enough.
  auto got = FetchUntil(place, {"GET", target, {}, {}}, kPatienceSeconds,
                        [](const HttpResponse&) { return true; });
  return got ? FetchedHead{{}, std::move(*got)} : FetchedHead{got.error(), {}};
}

std::optional<HttpPlace> PlaceAt(const std::string& address) {
  const bool has_scheme = address.find("://") != std::string::npos;
  const auto backend = BackendFromUrl(has_scheme ? address : "http://" + address);
  if (!backend) return std::nullopt;
  HttpPlace place{.host = backend->host, .port = std::to_string(backend->port)};
  if (backend->scheme != "https") return place;
  auto tls = TlsClient::Make(*backend);
  if (!tls) return std::nullopt;
  place.tls = std::move(*tls);
  return place;
}

Check LookAtPort(const char* flag, const std::string& address, std::string_view wanted) {
  PortFacts facts;
  facts.flag = flag;
  facts.address = address;
  facts.wanted = wanted;
  const auto place = PlaceAt(address);
  if (!place) {
    facts.failure = "is not HOST:PORT or https://HOST:PORT";
    return JudgePort(facts);
  }
  auto got = Fetch(*place, {"GET", std::string(kPortPath), {}, {}}, kPatienceSeconds);
  if (!got) {
    facts.failure = got.error();
    return JudgePort(facts);
  }
  facts.status = got->status;
  const auto json = ParseJson(got->body);
  if (got->status == 200 && json) facts.said = Printable(*json, "recourse");
  return JudgePort(facts);
}

Check LookAtReady(const std::string& probes) {
  ReadyFacts facts;
  const auto place = PlaceAt(probes);
  auto got = place ? Fetch(*place, {"GET", "/ready", {}, {}}, kPatienceSeconds)
                   : std::unexpected(std::string(kNotAPort));
  if (!got) {
    facts.failure = got.error();
  } else {
    facts.status = got->status;
    facts.text = std::move(got->body);
  }
  return JudgeReady(facts);
}

Check LookAtOperator(const ApiClient& client) {
  OperatorFacts facts;
  const auto text = Call(client, "GET", admin_paths::kSession);
  const auto session = text ? ParseJson(*text) : Result<Json>(std::unexpected(Error()));
  if (!text || !session) {
    facts.failure = text ? std::string(kNotUnderstood) : text.error();
    return JudgeOperator(facts);
  }
  facts.name = Printable(*session, "name");
  if (const Json* const roles = session->Find("roles"); roles != nullptr) {
    for (const Json& role : roles->items) facts.roles.push_back(role.text);
  }
  return JudgeOperator(facts);
}

BackendFacts FactsOfBackend(const Backend& backend) {
  const SystemClock clock;
  BackendFacts facts;
  auto addresses = LookUp(backend.host);
  if (!addresses) {
    facts.resolve_failure = addresses.error();
    return facts;
  }
  for (const auto& address : *addresses) facts.addresses.push_back(address.to_string());
  HttpPlace place{.host = backend.host, .port = std::to_string(backend.port)};
  if (backend.scheme == "https") {
    auto tls = TlsClient::Make(backend);
    if (!tls) {
      facts.tls_files_failure = tls.error();
      return facts;
    }
    place.tls = std::move(*tls);
  }
  for (const auto& address : *addresses) {
    const MonoTime begun = clock.Now();
    const auto reached = Reach({address, backend.port}, Millis(kPatienceSeconds * 1'000));
    facts.connect = std::chrono::round<Millis>(clock.Now() - begun);
    facts.unreached = reached ? std::nullopt : std::optional(reached.error());
    if (reached) break;
  }
  if (facts.unreached) return facts;
  const MonoTime begun = clock.Now();
  FetchedHead answer = GetHead(place, backend.base_path.empty() ? "/" : backend.base_path);
  facts.first_byte = std::chrono::round<Millis>(clock.Now() - begun);
  facts.http_failure = std::move(answer.failure);
  facts.status = answer.response.status;
  if (const std::string* date = FindHeader(answer.response.headers, "Date")) facts.date = *date;
  return facts;
}

// How far the IMF-fixdate is ahead of us (RFC 9110 5.6.7).
std::optional<std::chrono::seconds> AheadOf(const std::string& date) {
  std::tm parts{};
  const char* const end = ::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const std::int64_t now = ToUnixMillis(SystemClock().WallNow()) / 1'000;
  return std::chrono::seconds(::timegm(&parts) - now);
}

bool IsClockSynchronized() {
  timex facts{};
  return ::adjtimex(&facts) != TIME_ERROR;
}

std::uint64_t FilesMax() {
  rlimit files{};
  return ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_max : 0;
}

// Of /metrics, which needs no token; nullopt: the line is not there.
std::optional<std::uint64_t> CountIn(std::string_view metrics, std::string_view series) {
  const std::string line = fmt::format("\n{} ", series);
  const auto at = metrics.find(line);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = metrics.substr(at + line.size());
  std::uint64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

Check LookAtTraces(const std::string& probes) {
  TraceFacts facts;
  const auto place = PlaceAt(probes);
  auto got = place ? Fetch(*place, {"GET", "/metrics", {}, {}}, kPatienceSeconds)
                   : std::unexpected(std::string(kNotAPort));
  if (!got) {
    facts.why = got.error();
    return JudgeTraces(facts);
  }
  const auto named = CountIn(got->body, R"(recourse_flow_writes_total{flow="named"})");
  const auto alone = CountIn(got->body, R"(recourse_flow_writes_total{flow="own"})");
  if (named && alone) {
    facts.writes = {*named + *alone, *alone};
  } else {
    facts.why = "its /metrics counts no writes by flow";
  }
  return JudgeTraces(facts);
}

Check LookAtPolicy(const Setup& setup, const LoadedPolicy& loaded) {
  std::vector<PolicyProblem> problems = loaded.problems;
  // The first is shown: an error, else that nobody can approve, else a warning about the policy.
  const auto of_operators = ProblemsWithOperators(loaded, setup.operators);
  problems.insert(loaded.ok() ? problems.begin() : problems.end(), of_operators.begin(),
                  of_operators.end());
  const auto errors =
      std::ranges::count(problems, PolicyProblem::Severity::kError, &PolicyProblem::severity);
  const bool is_bad = !loaded.ok() || errors > 0;
  Check check{"policy", setup.policy, Check::Verdict::kGood, {}, {}};
  if (is_bad) check.verdict = Check::Verdict::kBad;
  if (!is_bad && !problems.empty()) check.verdict = Check::Verdict::kDoubt;
  if (problems.empty()) {
    check.found =
        fmt::format("version {}, mode {}, {} backend{}, {} tool{}", loaded.policy->version,
                    loaded.policy->mode == Mode::kObserve ? "observe" : "enforce",
                    loaded.policy->backends.size(), loaded.policy->backends.size() == 1 ? "" : "s",
                    loaded.policy->tools.size(), loaded.policy->tools.size() == 1 ? "" : "s");
  } else {
    check.found = fmt::format("{} problem{}, the first: {}", problems.size(),
                              problems.size() == 1 ? "" : "s", problems.front().ToString());
    const bool lacks_operators = loaded.ok() && setup.operators.empty() && !of_operators.empty();
    check.mend =
        lacks_operators
            ? std::string("name the operators file: --operators FILE")
            : fmt::format("recourse policy check {}{}", setup.policy,
                          setup.operators.empty() ? "" : " --operators " + setup.operators);
  }
  return check;
}

}  // namespace

std::vector<Check> Examine(const Setup& setup, const ApiClient& client) {
  std::vector<Check> checks;
  const LoadedPolicy loaded = LoadPolicy(setup.policy, TlsFiles::kCheck);
  checks.push_back(LookAtPolicy(setup, loaded));
  checks.push_back(LookAtPort("--listen", setup.listen, kAgentsPort));
  checks.push_back(LookAtPort("--admin", client.address, kAdminPort));
  checks.push_back(LookAtReady(setup.probes));
  if (!client.token_file.empty() || !client.cert_file.empty()) {
    checks.push_back(LookAtOperator(client));
  }
  const Policy none;
  const Policy& policy = loaded.ok() ? *loaded.policy : none;
  std::vector<std::pair<std::string, std::chrono::seconds>> dates;
  for (const Backend& backend : policy.backends) {
    const BackendFacts facts = FactsOfBackend(backend);
    if (const auto ahead = AheadOf(facts.date)) dates.emplace_back(backend.name, *ahead);
    checks.push_back(JudgeBackend(backend, facts));
  }
  if (!setup.key.call.empty()) {
    checks.push_back(loaded.ok() ? TryKey(policy, setup.key)
                                 : JudgeKey({setup.key.call, "the policy has errors", {}}));
  }
  if (!setup.data.empty()) checks.push_back(JudgeDisk(LookAtDisk(setup.data)));
  checks.push_back(JudgeFiles(FilesMax(), setup.connections));
  checks.push_back(JudgeClock(IsClockSynchronized(), dates));
  checks.push_back(JudgeProxyVariables(ProxyVariablesHere(), setup.listen, policy));
  checks.push_back(LookAtTraces(setup.probes));
  return checks;
}

}  // namespace recourse
