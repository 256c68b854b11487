#include "proxy/traffic/traffic_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <span>

#include "proxy/base/crypto/base64url.h"
#include "proxy/traffic/seen_call.h"

namespace recourse {
namespace {

constexpr std::string_view kSealedAs = "recourse-traffic-1";
constexpr std::size_t kNonce = Aes256Gcm::kNonceBytes, kTag = Aes256Gcm::kTagBytes;

std::string Part(const std::string& secret, std::string_view what) {
  return std::string(AsView(HmacKey(secret).OfParts({kSealedAs, what})));
}

}  // namespace

std::string TrafficFile(const std::string& directory) { return directory + "/traffic"; }
std::string OlderTrafficFile(const std::string& directory) { return directory + "/traffic.1"; }

TrafficKeys::TrafficKeys(const std::string& install_secret)
    : hashing(Part(install_secret, "values")), sealing(Part(install_secret, "lines")) {}

std::string SealLine(std::string_view text, const SecretKey& key, Random& random) {
  Aes256Gcm::Nonce nonce;
  random.Fill(nonce);
  std::string sealed(text);
  const std::array<std::string_view, 1> bound{kSealedAs};
  const Aes256Gcm::Tag tag = Aes256Gcm(key, Aes256Gcm::Use::kSeal).Seal(nonce, bound, sealed);
  std::string line(reinterpret_cast<const char*>(nonce.data()), kNonce);
  line.append(reinterpret_cast<const char*>(tag.data()), kTag);
  return ToBase64Url(line + sealed);
}

bool OpenLine(std::string_view line, const SecretKey& key, std::string& text) {
  const auto bytes = FromBase64Url(line);
  if (!bytes || bytes->size() < kNonce + kTag) return false;
  Aes256Gcm::Nonce nonce;
  Aes256Gcm::Tag tag;
  std::copy_n(bytes->begin(), kNonce, nonce.begin());
  std::copy_n(bytes->begin() + kNonce, kTag, tag.begin());
  text = bytes->substr(kNonce + kTag);
  const std::array<std::string_view, 1> bound{kSealedAs};
  return Aes256Gcm(key, Aes256Gcm::Use::kOpen).Open(nonce, bound, text, tag);
}

std::expected<KeptTraffic, std::string> ReadTraffic(const std::string& directory,
                                                    const TrafficKeys& keys,
                                                    std::int64_t since_ms) {
  KeptTraffic kept;
  bool is_there = false;
  for (const std::string& path : {OlderTrafficFile(directory), TrafficFile(directory)}) {
    std::ifstream file(path);
    is_there |= file.is_open();
    std::string line, text;
    while (std::getline(file, line)) {
      Sighting sighting;
      if (!OpenLine(line, keys.sealing, text) || !ReadSighting(text, sighting)) {
        ++kept.unreadable;
      } else if (sighting.wall_ms >= since_ms) {
        kept.seen.push_back(std::move(sighting));
      }
    }
  }
  if (!is_there) {
    return std::unexpected(TrafficFile(directory) +
                           " is not there: `recourse run` writes it in observe mode");
  }
  // Of one millisecond the order in which they ended stays.
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < kept.seen.size(); ++i) order.emplace_back(kept.seen[i].wall_ms, i);
  std::ranges::sort(order);
  std::vector<Sighting> seen;
  for (const auto& [wall_ms, at] : order) seen.push_back(std::move(kept.seen[at]));
  kept.seen = std::move(seen);
  return kept;
}

}  // namespace recourse
