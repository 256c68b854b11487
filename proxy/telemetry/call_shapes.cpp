#include "proxy/telemetry/call_shapes.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "policy/model/path_shape.h"

namespace recourse {
namespace {

constexpr std::size_t kProbesMax = 16;  // slots looked at for one shape

template <std::size_t Size>
void Copy(std::string_view text, char (&out)[Size]) {
  text.copy(out, Size - 1);  // nothing of an empty text, which may have no bytes at all
}

std::uint64_t Mix(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

template <class Line>
std::vector<Line> ByCalls(std::map<std::string, Line>& lines) {
  std::vector<Line> sorted;
  for (auto& [name, line] : lines) sorted.push_back(std::move(line));
  std::ranges::sort(sorted, [](const Line& a, const Line& b) {
    return std::tie(b.calls, a.backend, a.method, a.path) <
           std::tie(a.calls, b.backend, b.method, b.path);
  });
  return sorted;
}

}  // namespace

void CallShapes::Count(const Backend& backend, Effect effect, std::string_view method,
                       std::string_view path, std::string_view reason) {
  std::uint64_t hash = Mix(Mix(Mix(ShapeHash(path), method), backend.name), reason);
  hash = (hash ^ static_cast<std::uint64_t>(effect)) | 1;
  Slot* slots = slots_.load(std::memory_order_relaxed);
  if (slots == nullptr) {
    slots = new Slot[size_];
    slots_.store(slots, std::memory_order_release);
  }
  for (std::size_t i = 0; i < kProbesMax; ++i) {
    Slot& slot = slots[(hash / 2 + i) % size_];
    const std::uint64_t seen = slot.hash.load(std::memory_order_relaxed);
    if (seen == 0) {
      slot.effect = effect;
      Copy(backend.name, slot.backend);
      Copy(method, slot.method);
      Copy(PathShape(path, limits::kUnlistedShapeBytesMax), slot.path);
      Copy(reason, slot.reason);
      slot.hash.store(hash, std::memory_order_release);
    } else if (seen != hash) {
      continue;
    }
    slot.calls.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  other_.fetch_add(1, std::memory_order_relaxed);
}

std::vector<ShapeCount> CallShapes::Read() const {
  std::vector<ShapeCount> counts;
  const Slot* const slots = slots_.load(std::memory_order_acquire);
  for (std::size_t i = 0; slots != nullptr && i < size_; ++i) {
    const Slot& slot = slots[i];
    if (slot.hash.load(std::memory_order_acquire) == 0) continue;
    counts.push_back({slot.backend, slot.effect == Effect::kRead ? "read" : "write", slot.method,
                      slot.path, slot.reason, slot.calls.load(std::memory_order_relaxed)});
  }
  return counts;
}

std::vector<UnlistedLine> UnlistedReadsOf(const std::vector<ShapeCount>& counts) {
  std::map<std::string, UnlistedLine> lines;
  for (const ShapeCount& count : counts) {
    if (count.effect != "read") continue;
    UnlistedLine& line = lines[count.backend + " " + count.method + " " + count.path];
    line = {count.backend, count.effect, count.method, count.path, line.calls + count.calls};
  }
  return ByCalls(lines);
}

std::vector<RefusedLine> RefusedOf(const std::vector<ShapeCount>& counts) {
  std::map<std::string, RefusedLine> lines;
  for (const ShapeCount& one : counts) {
    RefusedLine& line = lines[one.reason + " " + one.backend + " " + one.method + " " + one.path];
    line = {one.backend, one.effect, one.method, one.path, one.reason, line.calls + one.calls};
  }
  return ByCalls(lines);
}

}  // namespace recourse
