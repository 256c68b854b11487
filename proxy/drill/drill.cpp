#include "proxy/drill/drill.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <deque>
#include <filesystem>
#include <tuple>

#include "policy/files/sources.h"
#include "policy/language/loader.h"
#include "proxy/base/random.h"
#include "proxy/drill/drill_plan.h"
#include "proxy/drill/drill_report.h"
#include "proxy/drill/drill_run.h"
#include "proxy/drill/drill_stage.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {
namespace {

using Kill = DrillRow::Kill;

std::vector<KillAt> KillsOf(const DrillRow& row) {
  switch (row.kill) {
    case Kill::kNone:
      return {};
    case Kill::kBefore:
      return {{row.commit, KillAt::Edge::kBefore}};
    case Kill::kAfter:
      return {{row.commit, KillAt::Edge::kAfter}};
    case Kill::kTwice:
      return {{row.commit, KillAt::Edge::kBefore}, {1, KillAt::Edge::kBefore}};
  }
  return {};
}

class Director {
 public:
  Director(const DrillOptions& options, DrillFindings& findings, const DrillStage& stage,
           DrilledPolicy policy, std::ostream& err)
      : options_(options),
        findings_(findings),
        stage_(stage),
        policy_(std::move(policy)),
        err_(err) {}

  void Run();

 private:
  void Start(std::size_t row);
  void Take(const DrillCrew::Ended& ended);
  void PlanKills(const DrillRow& first);
  void NameWhatStopped(const DrillRow& first);
  void TellProgress();
  void TellFlow(std::size_t flow);
  std::string PathOf(std::size_t row) const {
    return fmt::format("{}/run-{}", stage_.directory(), row);
  }

  const DrillOptions& options_;
  DrillFindings& findings_;
  const DrillStage& stage_;
  const DrilledPolicy policy_;
  std::ostream& err_;
  const SystemClock clock_;
  DrillCrew crew_;
  std::deque<std::size_t> waiting_;  // rows
  std::size_t done_ = 0;
};

void Director::Start(std::size_t row) {
  const DrillRow& what = findings_.rows[row];
  const Scenario& scenario = findings_.plan.flows[what.flow].scenarios[what.scenario];
  const std::string directory = PathOf(row);
  std::filesystem::create_directory(directory);
  crew_.Start(row,
              [&] { return ToJson(PlayScenario(scenario, KillsOf(what), policy_, directory)); });
}

// What the run without a kill made durable says where the others are killed.
void Director::PlanKills(const DrillRow& first) {
  const DrillRow run = first;  // the rows move as they grow
  for (std::size_t i = 1; i <= run.result.commits.size(); ++i) {
    for (const Kill kill : {Kill::kBefore, Kill::kAfter, Kill::kTwice}) {
      waiting_.push_back(findings_.rows.size());
      findings_.rows.push_back({.flow = run.flow,
                                .scenario = run.scenario,
                                .kill = kill,
                                .commit = i,
                                .at = run.result.commits[i - 1],
                                .result = {}});
    }
  }
}

void Director::Take(const DrillCrew::Ended& ended) {
  std::error_code ec;
  std::filesystem::remove_all(PathOf(ended.run), ec);
  DrillRow& row = findings_.rows[ended.run];
  row.was_run = true;
  if (auto result = RunResultFromJson(ended.text)) {
    row.result = std::move(*result);
  } else {
    row.result.verdict.broken.emplace_back("the drill itself broke down in this run");
  }
  row.is_reached = row.result.struck >= std::min<std::size_t>(KillsOf(row).size(), 1);
  ++done_;
  if (row.kill != Kill::kNone) return;
  NameWhatStopped(row);
  PlanKills(row);
}

// An agent whose call does not come through goes no further.
void Director::NameWhatStopped(const DrillRow& first) {
  const Scenario& scenario = findings_.plan.flows[first.flow].scenarios[first.scenario];
  const std::string& tool = first.result.not_done;
  if (scenario.kind != Scenario::Kind::kSucceeds || tool.empty() || options_.doubts.any()) return;
  findings_.plan.skipped.push_back(
      {tool,
       "its made-up call did not succeed, so what comes after it in its flow was not played"});
}

void Director::TellProgress() {
  if (!options_.tell_progress) return;
  err_ << fmt::format("\r{} of {} runs", done_, findings_.rows.size()) << std::flush;
}

void Director::TellFlow(std::size_t flow) {
  if (!options_.tell_flows) return;
  std::size_t runs = 0;
  for (const DrillRow& row : findings_.rows) {
    if (row.flow == flow && !row.was_run) return;
    runs += row.flow == flow ? 1 : 0;
  }
  err_ << fmt::format("{}: {} runs are done\n", findings_.plan.flows[flow].name, runs)
       << std::flush;
}

void Director::Run() {
  const MonoTime start = clock_.Now();
  const MonoTime end = start + options_.timeout;
  for (std::size_t i = 0; i < findings_.plan.flows.size(); ++i) {
    for (std::size_t j = 0; j < findings_.plan.flows[i].scenarios.size(); ++j) {
      waiting_.push_back(findings_.rows.size());
      findings_.rows.push_back({.flow = i, .scenario = j, .at = {}, .result = {}});
    }
  }
  while (clock_.Now() < end && (!waiting_.empty() || crew_.size() > 0)) {
    while (!waiting_.empty() && crew_.size() < limits::kDrillRunsAtOnce) {
      Start(waiting_.front());
      waiting_.pop_front();
    }
    if (const auto ended = crew_.Next(limits::kDrillLook * 10)) {
      Take(*ended);
      TellProgress();
      TellFlow(findings_.rows[ended->run].flow);
    }
  }
  if (options_.tell_progress) err_ << "\r" << std::string(30, ' ') << "\r" << std::flush;
  findings_.took = std::chrono::duration_cast<Millis>(clock_.Now() - start);
  std::ranges::sort(findings_.rows, {}, [](const DrillRow& row) {
    return std::tuple(row.flow, row.scenario, row.commit, row.kill);
  });
}

// What libraries make when they are first asked: once here, and not in every process of the drill.
void WarmUp() {
  MakeTlsReady();
  std::array<unsigned char, 16> bytes{};
  SystemRandom().Fill(bytes);
  (void)fmt::format("{:%Y}", fmt::gmtime(std::time_t{}));  // reads the time zone
}

std::string FlowNames(const Policy& policy) {
  std::vector<std::string> names;
  for (const Flow& flow : policy.flows) names.push_back(flow.name);
  for (const Backend& backend : policy.backends) names.push_back(backend.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string NothingToDrill(const DrillFindings& findings, const DrillOptions& options,
                           const LoadedPolicy& loaded) {
  std::string words;
  for (const Skipped& skipped : findings.plan.skipped) {
    words += "recourse: not drilled: " + skipped.what + ": " + skipped.why + "\n";
  }
  return words + "recourse: there is nothing to drill: " +
         (options.flow.empty() ? "no write tool of the policy can be called by the drill"
                               : "--flow '" + options.flow +
                                     "' names no flow, or none that can be drilled; accepted: " +
                                     FlowNames(*loaded.policy)) +
         "\n";
}

}  // namespace

std::expected<DrillFindings, std::string> PlayDrill(const PolicySources& sources,
                                                    const DrillOptions& options,
                                                    std::ostream& err) {
  const LoadedPolicy loaded = LoadPolicyFiles(sources);
  if (!loaded.ok()) {
    std::string words;
    for (const PolicyProblem& problem : loaded.problems) words += problem.ToString() + "\n";
    return std::unexpected(words + "recourse: the policy " + options.policy +
                           " has errors, see above\n");
  }
  DrillFindings findings{.policy = options.policy,
                         .plan = PlanDrill(*loaded.policy, options.flow),
                         .loaded = loaded.policy,
                         .rows = {},
                         .doubts = options.doubts,
                         .is_observing = loaded.policy->mode == Mode::kObserve};
  for (DrillFlow& flow : findings.plan.flows) {
    for (Scenario& scenario : flow.scenarios) scenario.mishaps.doubts = options.doubts;
  }
  if (findings.plan.flows.empty())
    return std::unexpected(NothingToDrill(findings, options, loaded));
  const auto stage = DrillStage::Make(options.tmp);
  auto copy = stage ? (*stage)->CopyPolicy(sources) : std::unexpected(stage.error());
  const auto operators =
      copy ? (*stage)->Write("operators.yaml", DrillOperators()) : std::unexpected(copy.error());
  if (!operators) return std::unexpected("recourse: " + operators.error() + "\n");
  const std::vector<PolicySource> files = ReadPolicyTwice(*copy).files;
  DrilledPolicy policy{*copy, *operators, files, LoadPolicyFiles({files, {}}, TlsFiles::kIgnore)};
  WarmUp();
  Director(options, findings, **stage, std::move(policy), err).Run();
  return findings;
}

int RunDrill(const DrillOptions& options, std::ostream& out, std::ostream& err) {
  out << std::flush;
  err << std::flush;
  const auto findings = PlayDrill(ReadPolicyTwice(options.policy), options, err);
  if (!findings) {
    err << findings.error();
    return kExitDrillUsage;
  }
  out << (options.json ? DrillJson(*findings) : DrillTable(*findings)) << std::flush;
  return SumsOf(*findings).is_kept() ? 0 : kExitDrillBroken;
}

}  // namespace recourse
