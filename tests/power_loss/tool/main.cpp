// power_loss_images LOG ACKNOWLEDGED IMAGES SEED SCRATCH
//
// Does with the recorded log of another process what power_loss_test does with its own. Each line
// of ACKNOWLEDGED: the length of the log when an agent had its answer, and the key of that answer.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/power_loss/images.h"

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const recourse::ShimLog log = recourse::ShimLog::Load(argv[1]);
  recourse::ImagePlan plan;
  plan.images = std::stoul(argv[3]);
  plan.seed = std::stoull(argv[4]);
  plan.scratch = argv[5];
  std::ifstream lines(argv[2]);
  std::uint64_t position = 0;
  for (std::string key; lines >> position >> key;) {
    const auto digest = recourse::DigestFromHex(key);
    if (!digest) return 2;
    const auto entry = std::lower_bound(
        log.entries().begin(), log.entries().end(), position,
        [](const recourse::ShimEntry& a, std::uint64_t end) { return a.end < end; });
    plan.acknowledged.push_back(
        {static_cast<std::size_t>(entry - log.entries().begin()), *digest, true, false});
  }
  std::sort(plan.acknowledged.begin(), plan.acknowledged.end(),
            [](const auto& a, const auto& b) { return a.entry < b.entry; });
  const recourse::ImageReport report = recourse::CheckImages(log, plan);
  std::printf("%zu disks, %zu after a second cut, %zu entries, %zu answers\n", report.images,
              report.nested, log.entries().size(), plan.acknowledged.size());
  for (const std::string& finding : report.findings) std::printf("%s\n", finding.c_str());
  return report.findings.empty() ? 0 : 1;
}
