// Where sightings are kept: DATA/traffic and, before it, DATA/traffic.1; one sealed line each.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "policy/suggest/sighting.h"
#include "proxy/base/crypto/aead.h"
#include "proxy/base/crypto/sha256.h"
#include "proxy/base/random.h"

namespace recourse {

std::string TrafficFile(const std::string& directory);
std::string OlderTrafficFile(const std::string& directory);

// The key that values are hashed with, and the one that lines are sealed with; both made of the
// install secret.
struct TrafficKeys {
  explicit TrafficKeys(const std::string& install_secret);
  HmacKey hashing;
  SecretKey sealing;
};

std::string SealLine(std::string_view text, const SecretKey& key, Random& random);
// False: it is cut off, or another key sealed it.
bool OpenLine(std::string_view line, const SecretKey& key, std::string& text);

struct KeptTraffic {
  std::vector<Sighting> seen;  // by time
  std::size_t unreadable = 0;  // lines
};
// Those since then. Fails with a line for people when there is no file.
std::expected<KeptTraffic, std::string> ReadTraffic(const std::string& directory,
                                                    const TrafficKeys& keys, std::int64_t since_ms);

}  // namespace recourse
