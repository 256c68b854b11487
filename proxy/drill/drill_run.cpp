#include "proxy/drill/drill_run.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>

#include "proxy/admin/access/admin_paths.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"
#include "proxy/config/files.h"
#include "proxy/drill/fast_clock.h"
#include "proxy/drill/mcp_message.h"
#include "proxy/net/beast/http_client.h"
#include "proxy/net/beast/http_server.h"

namespace recourse {
namespace {

constexpr int kFetchSeconds = 20;
// An outcome that so many looks in kDrillSettleFor did not find is one that nobody finds out. Time
// alone says nothing: while a busy machine stands still, nobody finds anything out.
constexpr int kLooksToSettle = 10;
constexpr std::string_view kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr std::string_view kToken = "drill";

// The port of a proxy that was killed may be anybody's next; at an address that nobody else has, no
// call meant for it reaches another run, and no stranger answers it. A pid has 22 bits at most.
std::string AddressOfThisProcess() {
  const auto pid = static_cast<unsigned>(::getpid());
  return fmt::format("127.{}.{}.{}", 1 + (pid >> 15 & 127), pid >> 7 & 255, 1 + (pid & 127));
}

void Pause(Millis time = limits::kDrillLook) {
  (void)::poll(nullptr, 0, static_cast<int>(time.count()));
}

const std::vector<Json>& ItemsAt(const Json& json, std::string_view name) {
  static const std::vector<Json> kNone;
  const Json* value = json.Find(name);
  return value == nullptr ? kNone : value->items;
}

// What the agent makes of an answer. kUnknown: it is to come again, for an outcome that is unknown.
enum class Told : std::uint8_t { kDone, kRefused, kAgain, kUnknown, kWaits };

// Whether anything but a human's word can tell what became of such a call.
bool CanBeFoundOut(const ScriptedCall& call) {
  return call.tool->settle || KeyRuleOf(*call.tool, *call.backend).at.exists();
}

// How long an outcome is looked for, at first often: what is found out is soon.
class Patience {
 public:
  explicit Patience(const Clock& clock)
      : clock_(clock), until_(clock.Now() + limits::kDrillSettleFor) {}

  // Counts one look; true: there is no use in more.
  bool EndsWithThisLook() { return ++looks_ > kLooksToSettle && clock_.Now() > until_; }
  void PauseBetweenLooks() {
    Pause(pause_);
    pause_ = std::min(pause_ * 2, limits::kDrillSettleFor / kLooksToSettle);
  }

 private:
  const Clock& clock_;
  const MonoTime until_;
  Millis pause_ = limits::kDrillLook;
  int looks_ = 0;
};

class Play {
 public:
  Play(const Scenario& scenario, const std::vector<KillAt>& kills, const DrilledPolicy& policy,
       const std::string& directory);

  RunResult Run();

 private:
  // Makes the next proxy the running one whenever the one before was killed. False: the run is
  // over, and `found_.problem` says why.
  bool Revive();
  bool IsLate();
  std::string LastWords() const;
  bool AwaitReady();
  std::optional<Json> AskAdmin(const std::string& method, const std::string& target,
                               std::string body = {});
  void ApproveWhatWaits();
  std::optional<Told> Call(std::size_t index);
  void RunAgent();
  bool LookAtFlows();
  void AwaitEnd();
  void CancelOpenFlows();
  bool IsAtRest() const;
  std::string NameOfCommit(const std::vector<RowNote>& notes) const;
  RunResult Conclude();

  const Scenario& scenario_;
  const std::string directory_, address_;
  const SystemClock real_;
  const MonoTime end_;
  const FastClock clock_{limits::kDrillSpeed};
  std::deque<DrilledProxy> proxies_;
  std::size_t running_ = 0;
  bool is_ready_ = false;
  std::string listen_;
  std::optional<HttpCaller> admin_;
  ScriptedBackend backend_;
  std::unique_ptr<HttpServer> server_;  // a thread: after all proxies
  Found found_;
  std::vector<std::string> open_flows_;         // their numbers
  std::map<std::uint64_t, std::string> tools_;  // by operation
  bool has_unknown_ = false, has_claim_ = false;
  bool has_waited_ = false;  // the agent has, for an outcome that nobody knows
};

Play::Play(const Scenario& scenario, const std::vector<KillAt>& kills, const DrilledPolicy& policy,
           const std::string& directory)
    : scenario_(scenario),
      directory_(directory),
      address_(AddressOfThisProcess()),
      end_(real_.Now() + limits::kDrillRunFor),
      backend_(scenario.script, scenario.mishaps) {
  for (std::size_t i = 0; i <= kills.size(); ++i) {
    proxies_.emplace_back(DrilledProxyParts{
        .policy = policy,
        .address = address_,
        .data = directory + "/data",
        .log_file = directory + "/log",
        .deadline = scenario.waits_for_deadline ? limits::kDrillDeadline : limits::kDrillPatience,
        .kill = i < kills.size() ? kills[i] : KillAt(),
        .clock = clock_});
  }
  server_ = std::make_unique<HttpServer>(
      boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0),
      [this](const HttpRequest& request, const HttpPeer&) { return backend_.Handle(request); },
      HttpServerSettings{.thread = "recourse-drill"});
  proxies_.front().Start(server_->endpoint().port());
  found_.told_done.resize(scenario.script.size());
}

bool Play::IsLate() {
  if (real_.Now() < end_) return false;
  if (found_.problem.empty()) {
    found_.problem = fmt::format("the run did not come to an end within {} s",
                                 limits::kDrillRunFor.count() / 1000);
  }
  return true;
}

bool Play::Revive() {
  while (found_.problem.empty() && !IsLate()) {
    const auto ended = proxies_[running_].Ended();
    if (!ended) {
      if (is_ready_ || AwaitReady()) return true;
      continue;
    }
    if (!proxies_[running_].is_struck() || running_ + 1 == proxies_.size()) {
      found_.problem = "Recourse ended by itself: " + *ended + LastWords();
      return false;
    }
    is_ready_ = false;
    proxies_[++running_].Start(server_->endpoint().port());
  }
  return false;
}

// The last line that a proxy wrote.
std::string Play::LastWords() const {
  const auto log = ReadInputFile(directory_ + "/log", limits::kWriteBodyBytesMax);
  if (!log || log->empty()) return {};
  const auto end = log->find_last_not_of('\n');
  const auto first = log->rfind('\n', end);
  return ": " + log->substr(first == std::string::npos ? 0 : first + 1, end - first);
}

// False: not yet, or never.
bool Play::AwaitReady() {
  const auto ports = proxies_[running_].AwaitPorts(limits::kDrillSettleFor);
  if (!ports) return false;
  listen_ = ports->agents;
  admin_.emplace(HttpPlace{.host = address_, .port = ports->admin}, kFetchSeconds);
  is_ready_ = true;
  return true;
}

// nullopt: no answer, mostly because the proxy was killed.
std::optional<Json> Play::AskAdmin(const std::string& method, const std::string& target,
                                   std::string body) {
  const HttpRequest request{
      method, target, {{"Authorization", "Bearer " + std::string(kToken)}}, std::move(body)};
  const auto answer = admin_->Call(request);
  if (!answer || answer->status != 200) return std::nullopt;
  auto json = ParseJson(answer->body);
  return json ? std::optional(std::move(*json)) : std::nullopt;
}

void Play::ApproveWhatWaits() {
  const auto list = AskAdmin("GET", admin_paths::kApprovals);
  if (!list) return;
  for (const Json& one : ItemsAt(*list, "approvals")) {
    if (ScalarText(one, "phase") != "CLAIMED") continue;  // it was said already
    (void)AskAdmin(
        "POST", admin_paths::FillPlace(admin_paths::kApprove, ScalarText(one, "operation")),
        ObjectText([&](JsonObject& json) { json.Text("digest", ScalarText(one, "digest")); }));
  }
}

// A call that took effect, but whose answer is lost, is told as an error of its tool.
Told ToldByMcp(const HttpResponse& answer, std::string_view outcome, const ScriptedCall& call) {
  if (outcome == "executed") return Told::kDone;
  const auto told = ReadMcpAnswer(answer);
  if (!told) return Told::kRefused;
  if (told->is_done && told->output != call.refusal.body) return Told::kDone;
  return told->is_retryable ? Told::kAgain : Told::kRefused;
}

// nullopt: nobody answered.
std::optional<Told> Play::Call(std::size_t index) {
  const ScriptedCall& call = scenario_.script[index];
  HttpRequest request = call.request;
  request.headers.emplace_back("traceparent", fmt::format("00-{}-00f067aa0ba902b7-01", kTrace));
  const auto answer = Fetch({.host = address_, .port = listen_}, request, kFetchSeconds);
  if (!answer) return std::nullopt;
  const std::string* outcome = FindHeader(answer->headers, "Recourse-Outcome");
  if (outcome != nullptr && *outcome == "pending") return Told::kWaits;
  if (!call.tool->mcp_names.empty()) {
    return ToldByMcp(*answer, outcome == nullptr ? std::string_view() : *outcome, call);
  }
  if (answer->status == 204 || (IsSuccess(answer->status) && answer->body != call.refusal.body)) {
    return Told::kDone;
  }
  const std::string* type = FindHeader(answer->headers, "Content-Type");
  if (type == nullptr || !type->starts_with("application/problem+json")) return Told::kRefused;
  const auto problem = ParseJson(answer->body);
  if (!problem || ScalarText(*problem, "retryable") != "true") return Told::kRefused;
  return ScalarText(*problem, "type").ends_with("/outcome-unknown") ? Told::kUnknown : Told::kAgain;
}

// Like a real agent: it repeats what was not answered, or what it is told to repeat, for a while,
// and goes no further when a step does not come through.
void Play::RunAgent() {
  for (std::size_t i = 0; i < scenario_.script.size(); ++i) {
    Patience patience(real_);
    for (;;) {
      if (!Revive()) return;
      const auto told = Call(i);
      if (told == Told::kDone) found_.told_done[i] = true;
      if (told == Told::kDone) break;
      if (told == Told::kRefused) return;
      if (told == Told::kWaits) ApproveWhatWaits();
      const bool is_lost = told == Told::kUnknown && !CanBeFoundOut(scenario_.script[i]);
      has_waited_ = is_lost || ((told == Told::kAgain || told == Told::kUnknown) &&
                                patience.EndsWithThisLook());
      if (has_waited_) return;
      patience.PauseBetweenLooks();
    }
  }
}

// False: the flows could not be read.
bool Play::LookAtFlows() {
  const auto list = AskAdmin("GET", admin_paths::kFlows + std::string("?all=true&limit=100"));
  if (!list) return false;
  std::vector<FlowFound> flows;
  open_flows_.clear();
  has_unknown_ = has_claim_ = false;
  for (const Json& line : ItemsAt(*list, "flows")) {
    const std::string number = ScalarText(line, "number");
    const auto flow = AskAdmin("GET", admin_paths::FillPlace(admin_paths::kFlow, number));
    if (!flow) return false;
    FlowFound& out = flows.emplace_back(FlowFound{
        .phase = ScalarText(*flow, "phase"), .reason = ScalarText(*flow, "reason"), .steps = {}});
    if (out.phase == "OPEN") open_flows_.push_back(number);
    for (const Json& step : ItemsAt(*flow, "steps")) {
      out.steps.push_back({ScalarText(step, "tool"), ScalarText(step, "phase")});
      for (const auto& [name, prefix] :
           {std::pair("step", ""), std::pair("undo_operation", "undo of ")}) {
        const std::string operation = ScalarText(step, name);
        std::uint64_t value = 0;
        for (const char c : operation) value = value * 10 + static_cast<std::uint64_t>(c - '0');
        if (value != 0) tools_[value] = prefix + out.steps.back().tool;
      }
      const std::string& phase = out.steps.back().phase;
      has_unknown_ = has_unknown_ || phase == "UNCERTAIN" || phase == "DISPATCHING";
      has_claim_ = has_claim_ || phase == "CLAIMED" || phase == "APPROVED";
    }
  }
  found_.flows = std::move(flows);
  return true;
}

bool Play::IsAtRest() const {
  const auto is_over = [&](const FlowFound& flow) {
    if (flow.phase == "OPEN") {
      return !has_unknown_ && !has_claim_ && !has_waited_ && !scenario_.waits_for_deadline &&
             !scenario_.operator_cancels;
    }
    return flow.phase == "COMMITTED" || flow.phase == "UNDONE" || flow.phase == "NEEDS_HUMAN";
  };
  return !found_.flows.empty() && std::ranges::all_of(found_.flows, is_over);
}

void Play::CancelOpenFlows() {
  for (const std::string& number : open_flows_) {
    (void)AskAdmin("POST", admin_paths::FillPlace(admin_paths::kFlowCancel, number),
                   R"({"reason":"the drill's operator"})");
  }
}

// An operator sees to it: to a flow that is to be canceled, to one with an outcome that nobody can
// find out, and to one whose agent has given up: on a slow day before its outcome was found out.
void Play::AwaitEnd() {
  Patience patience(real_);
  while (Revive()) {
    if (LookAtFlows()) {
      if (IsAtRest()) return;
      if (has_claim_ || found_.flows.empty()) ApproveWhatWaits();
      const bool is_stuck = has_waited_ || (has_unknown_ && patience.EndsWithThisLook());
      if (scenario_.operator_cancels || (is_stuck && !scenario_.waits_for_deadline)) {
        CancelOpenFlows();
      }
    }
    patience.PauseBetweenLooks();
  }
}

std::string Play::NameOfCommit(const std::vector<RowNote>& notes) const {
  std::string name;
  for (const RowNote& note : notes) {
    const auto tool = tools_.find(note.operation);
    if (!name.empty()) name += ", ";
    name += note.operation == 0 ? "flow " : tool == tools_.end() ? "? " : tool->second + " ";
    name += note.phase;
  }
  return name;
}

RunResult Play::Conclude() {
  RunResult result;
  for (DrilledProxy& proxy : proxies_) result.struck += proxy.is_struck();
  if (!proxies_.empty()) {
    for (const auto& notes : proxies_.front().Commits()) {
      result.commits.push_back(NameOfCommit(notes));
    }
  }
  server_.reset();  // nothing is written down any more
  found_.deeds = backend_.deeds();
  std::vector<Expected> calls;
  for (const ScriptedCall& call : scenario_.script) {
    calls.push_back({call.tool->name, call.undo != nullptr});
  }
  result.verdict = Reckon(calls, found_, scenario_.must_break);
  for (const Action& deed : found_.deeds) result.story.push_back(LineOf(deed, calls));
  const auto stopped = std::ranges::find(found_.told_done, false);
  if (stopped != found_.told_done.end()) {
    result.not_done = calls[static_cast<std::size_t>(stopped - found_.told_done.begin())].tool;
  }
  return result;
}

RunResult Play::Run() {
  RunAgent();
  AwaitEnd();
  while (Revive()) {
    const auto verified = AskAdmin("POST", admin_paths::kLedgerVerify);
    if (!verified) continue;
    found_.is_verified = ScalarText(*verified, "ok") == "true";
    break;
  }
  return Conclude();
}

}  // namespace

std::string DrillOperators() {
  return fmt::format(
      "version: 1\ntokens:\n  - {{ name: {}, sha256: \"{}\", roles: [ read, approve, repair ] }}\n",
      kDrillOperator, ToHex(Sha256(kToken)));
}

RunResult PlayScenario(const Scenario& scenario, const std::vector<KillAt>& kills,
                       const DrilledPolicy& policy, const std::string& directory) {
  return Play(scenario, kills, policy, directory).Run();
}

}  // namespace recourse
