#include "tests/power_loss/images.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/queries/log_queries.h"
#include "tests/support/quiet_log.h"

namespace recourse {
namespace {

constexpr std::size_t kWorkers = 2;
constexpr std::size_t kFindingsMax = 5;
constexpr std::size_t kNestedEvery = 10;
constexpr std::size_t kNestedImages = 3;

// Whether a repeat of that call is told what it was told, and never sent.
bool IsRemembered(Engine& engine, const Acknowledged& one) {
  NewOperation call;
  call.event.key = one.key;
  call.on_mismatch = OnMismatch::kReplay;  // all that is known of the call is its key
  const auto step = engine.Begin(call);
  if (!step) return false;
  switch (step->begun.kind) {
    case Begun::Kind::kReplay:
      return step->begun.event.phase == Phase::kSucceeded && !one.stays_open;
    case Begun::Kind::kExpired:
      return !one.stays_open;  // what is open is never forgotten
    case Begun::Kind::kUnknown:
      return !one.is_finished;
    default:
      return false;
  }
}

// What is wrong with the ledger in `directory`; empty when nothing is.
std::string Problem(const std::string& directory, const ImagePlan& plan,
                    std::span<const Acknowledged> acknowledged) {
  const SystemClock clock;
  auto parts = OpenLmdbParts({.directory = directory, .map_bytes = 1U << 28, .unsafe_fs = true});
  if (!parts) return "refused: " + parts.error();
  parts->keys = plan.keys;
  auto engine = StartEngine(std::move(*parts), clock);
  if (!engine) return "refused: " + engine.error();
  EventLog& log = (*engine)->log();
  const LogHead& head = (*engine)->head();
  const VerifyReport report =
      plan.keys != nullptr ? VerifyLog(log, plan.keys, head.seq, head.hash) : VerifyChain(log);
  if (!report.ok) return "broken: " + report.problem;
  if ((*engine)->is_restored()) return "taken for a restored backup";
  for (const Acknowledged& one : acknowledged) {
    if (IsRemembered(**engine, one)) continue;
    return fmt::format("lost: {} of {}...", one.is_finished ? "the answer" : "the beginning",
                       ToHex(one.key).substr(0, 8));
  }
  return "";
}

struct Cut {
  std::size_t entry = 0;
  std::size_t image = 0;
};

std::vector<Cut> CutsOf(const ShimLog& log, const ImagePlan& plan) {
  std::mt19937_64 random(plan.seed);
  std::vector<Cut> cuts(plan.images);
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const bool is_busy = !plan.busy.empty() && i % 3 == 0;
    cuts[i].entry =
        is_busy ? plan.busy[random() % plan.busy.size()] : random() % log.entries().size();
    cuts[i].image = i;
  }
  std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) { return a.entry < b.entry; });
  return cuts;
}

// One half of the images.
class Worker {
 public:
  Worker(const ShimLog& log, const ImagePlan& plan, std::size_t number)
      : log_(log),
        plan_(plan),
        number_(number),
        directory_(plan.scratch + "/image" + std::to_string(number)),
        report_(plan.scratch + "/report" + std::to_string(number)) {}

  void Run() {
    DiskModel disk = plan_.start ? *plan_.start : DiskModel(plan_.trust);
    std::size_t applied = 0;
    std::size_t acknowledged = 0;
    for (const Cut& cut : CutsOf(log_, plan_)) {
      for (; applied <= cut.entry; ++applied) disk.Apply(log_.entries()[applied]);
      while (acknowledged < plan_.acknowledged.size() &&
             plan_.acknowledged[acknowledged].entry <= cut.entry) {
        ++acknowledged;
      }
      if (cut.image % kWorkers != number_) continue;
      std::ofstream(plan_.scratch + "/now" + std::to_string(number_), std::ios::trunc) << cut.image;
      std::mt19937_64 random(plan_.seed + 1 + cut.image);
      Check(disk, cut.image, std::span(plan_.acknowledged).first(acknowledged), random);
      if (findings_ >= kFindingsMax) return;
    }
  }

 private:
  void Check(const DiskModel& disk, std::size_t image, std::span<const Acknowledged> acknowledged,
             std::mt19937_64& random) {
    disk.WriteImage(directory_, random);
    if (image / kWorkers % kNestedEvery != 0) {
      Find(image, Problem(directory_, plan_, acknowledged));
      return;
    }
    // The power fails again while the recovery runs.
    const std::string nested_log = plan_.scratch + "/nested" + std::to_string(number_);
    std::filesystem::remove(nested_log);
    DiskModel first(plan_.trust);
    first.Begin(directory_);
    shim_record(directory_.c_str(), nested_log.c_str());
    const std::string problem = Problem(directory_, plan_, acknowledged);
    shim_record(nullptr, nullptr);
    Find(image, problem);
    const ShimLog recovery = ShimLog::Load(nested_log);
    for (std::size_t i = 0; i < kNestedImages && !recovery.entries().empty(); ++i) {
      DiskModel second = first;
      const std::size_t cut = random() % recovery.entries().size();
      for (std::size_t at = 0; at <= cut; ++at) second.Apply(recovery.entries()[at]);
      second.WriteImage(directory_, random);
      std::ofstream(report_, std::ios::app) << "nested\n";
      Find(image, Problem(directory_, plan_, acknowledged));
    }
  }

  void Find(std::size_t image, const std::string& problem) {
    std::ofstream report(report_, std::ios::app);
    if (problem.empty()) return;
    ++findings_;
    report << "image " << image << ": " << problem << "\n";
  }

  const ShimLog& log_;
  const ImagePlan& plan_;
  const std::size_t number_;
  const std::string directory_, report_;
  std::size_t findings_ = 0;
};

std::string FirstLine(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

}  // namespace

ImageReport CheckImages(const ShimLog& log, const ImagePlan& plan) {
  std::filesystem::remove_all(plan.scratch);
  std::filesystem::create_directories(plan.scratch);
  pid_t children[kWorkers];
  for (std::size_t i = 0; i < kWorkers; ++i) {
    children[i] = fork();
    if (children[i] != 0) continue;
    const QuietLog quiet;
    Worker(log, plan, i).Run();
    _exit(0);
  }
  ImageReport report{.images = plan.images, .nested = 0, .findings = {}};
  for (std::size_t i = 0; i < kWorkers; ++i) {
    int status = 0;
    waitpid(children[i], &status, 0);
    std::ifstream lines(plan.scratch + "/report" + std::to_string(i));
    for (std::string line; std::getline(lines, line);) {
      if (line == "nested") {
        ++report.nested;
      } else {
        report.findings.push_back(line);
      }
    }
    if (status != 0) {
      report.findings.push_back("image " + FirstLine(plan.scratch + "/now" + std::to_string(i)) +
                                ": the process ended with status " + std::to_string(status));
    }
  }
  std::filesystem::remove_all(plan.scratch);
  return report;
}

}  // namespace recourse
