#include "proxy/server/unlisted_calls.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "filters/report/path_shape.h"

namespace recourse {
namespace {

constexpr std::size_t kProbesMax = 16;  // slots looked at for one shape

template <std::size_t Size>
void Copy(std::string_view text, char (&out)[Size]) {
  std::memcpy(out, text.data(), std::min(text.size(), Size - 1));
}

std::uint64_t Mix(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

void UnlistedCalls::Count(const Backend& backend, Effect effect, std::string_view method,
                          std::string_view path) {
  std::uint64_t hash = Mix(Mix(ShapeHash(path), method), backend.name);
  hash = (hash ^ static_cast<std::uint64_t>(effect)) | 1;
  for (std::size_t i = 0; i < kProbesMax; ++i) {
    Slot& slot = (*slots_)[(hash / 2 + i) % slots_->size()];
    const std::uint64_t seen = slot.hash.load(std::memory_order_relaxed);
    if (seen == 0) {
      slot.effect = effect;
      Copy(backend.name, slot.backend);
      Copy(method, slot.method);
      Copy(PathShape(path, limits::kUnlistedShapeBytesMax), slot.path);
      slot.hash.store(hash, std::memory_order_release);
    } else if (seen != hash) {
      continue;
    }
    slot.calls.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  other_.fetch_add(1, std::memory_order_relaxed);
}

std::vector<UnlistedCount> UnlistedCalls::Read() const {
  std::vector<UnlistedCount> counts;
  for (const Slot& slot : *slots_) {
    if (slot.hash.load(std::memory_order_acquire) == 0) continue;
    counts.push_back({slot.backend, slot.effect == Effect::kRead ? "read" : "write", slot.method,
                      slot.path, slot.calls.load(std::memory_order_relaxed)});
  }
  return counts;
}

std::vector<UnlistedLine> ReadsOf(const std::vector<UnlistedCount>& counts) {
  std::map<std::string, UnlistedLine> lines;
  for (const UnlistedCount& count : counts) {
    if (count.effect != "read") continue;
    UnlistedLine& line = lines[count.backend + " " + count.method + " " + count.path];
    line = {count.backend, count.effect, count.method, count.path, line.calls + count.calls};
  }
  std::vector<UnlistedLine> reads;
  for (auto& [name, line] : lines) reads.push_back(std::move(line));
  std::sort(reads.begin(), reads.end(), [](const UnlistedLine& a, const UnlistedLine& b) {
    return std::tie(b.calls, a.backend, a.method, a.path) <
           std::tie(a.calls, b.backend, b.method, b.path);
  });
  return reads;
}

}  // namespace recourse
