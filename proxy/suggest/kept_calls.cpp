#include "proxy/suggest/kept_calls.h"

#include <utility>

#include "proxy/config/files.h"
#include "proxy/traffic/traffic_file.h"

namespace recourse {

std::expected<KeptCalls, std::string> ReadKeptCalls(const KeptFrom& from, std::ostream& err) {
  const auto secret = ReadInstallSecret(from.install_secret.empty() ? from.data + "/install.secret"
                                                                    : from.install_secret);
  if (!secret) {
    return std::unexpected(secret.error() +
                           "; --data is the directory of a process that ran in observe mode");
  }
  KeptCalls calls{*secret, {}};
  auto kept = ReadTraffic(from.data, TrafficKeys(*secret),
                          ToUnixMillis(SystemClock().WallNow() - from.since));
  if (!kept) return std::unexpected(kept.error());
  if (kept->seen.empty()) {
    return std::unexpected("no call was seen in that time; see --since and --install-secret-file");
  }
  if (kept->unreadable > 0) {
    err << kept->unreadable << " lines cannot be read, and were left out\n";
  }
  calls.seen = std::move(kept->seen);
  return calls;
}

}  // namespace recourse
