#include "proxy/ca/ca_rotation.h"

#include "policy/model/intercepted_hosts.h"
#include "proxy/base/ca_limits.h"
#include "proxy/base/log/log.h"
#include "proxy/ca/trust_bundle.h"

namespace recourse {
FileResult<void> CaRotation::Prepare(const Policy& policy) {
  const std::lock_guard lock(mutex_);
  return Keep(policy);
}

FileResult<void> CaRotation::Keep(const Policy& policy) {
  if (settings_.directory.empty()) {
    const auto hosts = InterceptedHosts(policy);
    if (hosts.empty()) return {};
    return std::unexpected("the policy intercepts " + hosts.front() +
                           ", which takes a CA: start with --ca DIR, or take `intercept` from "
                           "that backend");
  }
  const auto kept = KeepCa(settings_.directory,
                           {.name = HostName(),
                            .hosts = InterceptedHosts(policy),
                            .now = clock_.WallNow(),
                            .life = settings_.life},
                           random_);
  if (!kept) return std::unexpected("--ca: " + kept.error());
  if (used_ == nullptr || kept->ca->Pem() != used_->Pem()) {
    for (std::size_t at = 0; at < settings_.bundles.size(); ++at) {
      if (auto written = WriteBundle(*kept->ca, at); !written) return written;
    }
    minter_.Use(kept->ca);
    used_ = kept->ca;
    Tell(*kept);
  }
  if (kept->warning != problem_ && !kept->warning.empty()) {
    Log(LogLevel::kWarn, "the CA of --ca", {{"reason", kept->warning}});
  }
  problem_ = kept->warning;
  return {};
}

void CaRotation::Look(const Policy& policy) {
  const std::lock_guard lock(mutex_);
  const std::string told = problem_;
  const auto kept = Keep(policy);
  if (kept) return MendBundles();
  problem_ = kept.error();
  if (problem_ == told) return;
  Log(LogLevel::kError, "the CA for interception stays as it is", {{"reason", problem_}});
}

// The same bytes for the same CAs, so that two processes with one file do not write in turns.
FileResult<void> CaRotation::WriteBundle(const PodCa& ca, std::size_t at) {
  const std::string& path = settings_.bundles[at];
  const auto text =
      ReadAndBundle(settings_.system, settings_.bundles, ca, FormOfFile(path), ca.begin());
  if (!text) return std::unexpected("--ca-system: " + text.error());
  if (auto written = WriteFileAtomically(path, *text, Readers::kEverybody); !written) {
    return std::unexpected("--ca-bundle: " + written.error());
  }
  written_[at] = Sha256(*text);
  return {};
}

bool CaRotation::IsAsWritten(std::size_t at) const {
  const auto text = ReadInputFile(settings_.bundles[at], 2 * limits::kBundleBytesMax);
  return text && Sha256(*text) == written_[at];
}

void CaRotation::MendBundles() {
  if (used_ == nullptr) return;
  std::string problem;
  for (std::size_t at = 0; at < settings_.bundles.size(); ++at) {
    if (IsAsWritten(at)) continue;
    if (auto written = WriteBundle(*used_, at); !written) {
      problem = written.error();
    } else {
      Log(LogLevel::kWarn, "a file of --ca-bundle was gone or changed, and is written again",
          {{"path", settings_.bundles[at]}});
    }
  }
  if (problem != problem_of_bundles_ && !problem.empty()) {
    Log(LogLevel::kError, "agents cannot read the CA for interception", {{"reason", problem}});
  }
  problem_of_bundles_ = problem;
}

void CaRotation::Tell(const KeptCa& kept) {
  const bool is_new_to_agents = kept.has_further_hosts;
  const std::string end = std::to_string(ToUnixMillis(kept.ca->end()));
  Log(is_new_to_agents ? LogLevel::kWarn : LogLevel::kInfo,
      is_new_to_agents ? "the CA permits further hosts now: agents that have read the bundle "
                         "before have to be started again to trust it for them"
                       : "the CA for interception",
      {{"directory", settings_.directory}, {"state", WordFor(kept.state)}, {"ends_ms", end}});
}

}  // namespace recourse
