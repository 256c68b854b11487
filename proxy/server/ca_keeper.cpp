#include "proxy/server/ca_keeper.h"

#include "policy/intercepted_hosts.h"
#include "proxy/base/log.h"
#include "proxy/server/trust_bundle.h"

namespace recourse {
FileResult<void> CaKeeper::Prepare(const Policy& policy) {
  const std::lock_guard lock(mutex_);
  return Keep(policy);
}

FileResult<void> CaKeeper::Keep(const Policy& policy) {
  if (settings_.directory.empty()) {
    const auto hosts = InterceptedHosts(policy);
    if (hosts.empty()) return {};
    return std::unexpected("the policy intercepts " + hosts.front() +
                           ", which takes a CA: start with --ca DIR, or take `intercept` from "
                           "that backend");
  }
  const auto kept = KeepCa(settings_.directory,
                           {.name = HostName(),
                            .hosts = HostsToSignFor(policy),
                            .now = clock_.WallNow(),
                            .life = settings_.life},
                           random_);
  if (!kept) return std::unexpected("--ca: " + kept.error());
  const std::string pem = kept->ca->Pem();
  if (pem != used_) {
    if (auto written = WriteBundles(*kept->ca); !written) return written;
    minter_.Use(kept->ca);
    used_ = pem;
    Tell(*kept);
  }
  if (kept->warning != problem_ && !kept->warning.empty()) {
    Log(LogLevel::kWarn, "the CA of --ca", {{"reason", kept->warning}});
  }
  problem_ = kept->warning;
  return {};
}

void CaKeeper::Look(const Policy& policy) {
  const std::lock_guard lock(mutex_);
  const std::string told = problem_;
  const auto kept = Keep(policy);
  if (kept) return;
  problem_ = kept.error();
  if (problem_ == told) return;
  Log(LogLevel::kError, "the CA for interception stays as it is", {{"reason", problem_}});
}

FileResult<void> CaKeeper::WriteBundles(const PodCa& ca) const {
  for (const std::string& path : settings_.bundles) {
    const auto form = path.ends_with(".jks") ? BundleForm::kJks : BundleForm::kPem;
    const auto text = ReadAndBundle(settings_.system, ca, form, clock_.WallNow());
    if (!text) return std::unexpected("--ca-system: " + text.error());
    if (auto written = WriteFileAtomically(path, *text, Readers::kEverybody); !written) {
      return std::unexpected("--ca-bundle: " + written.error());
    }
  }
  return {};
}

void CaKeeper::Tell(const KeptCa& kept) {
  const bool is_new_to_agents = kept.state == CaState::kWidened;
  const std::string end = std::to_string(ToUnixMillis(kept.ca->end()));
  Log(is_new_to_agents ? LogLevel::kWarn : LogLevel::kInfo,
      is_new_to_agents ? "the CA permits further hosts now: agents that have read the bundle "
                         "before have to be started again to trust it for them"
                       : "the CA for interception",
      {{"directory", settings_.directory}, {"state", WordFor(kept.state)}, {"ends_ms", end}});
}

}  // namespace recourse
