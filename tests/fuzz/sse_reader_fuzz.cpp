// Server-sent events are the same events in whatever pieces they come.
#include <string>
#include <vector>

#include "filters/mcp/sse_reader.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {
namespace {

constexpr std::size_t kEventBytesMax = 1 << 20;

std::vector<SseEvent> Read(std::string_view bytes, std::size_t piece_size) {
  SseReader reader(kEventBytesMax);
  std::vector<SseEvent> events;
  for (std::size_t at = 0; at < bytes.size(); at += piece_size) {
    reader.Feed(ExactBytes(bytes.substr(at, piece_size)).view());
    while (auto event = reader.Next()) events.push_back(std::move(*event));
  }
  return events;
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto whole = Read(bytes, bytes.size());
  std::size_t raw_bytes = 0;
  for (const SseEvent& event : whole) raw_bytes += event.raw.size();
  RC_CHECK(raw_bytes <= bytes.size());
  for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
    const auto pieces = Read(bytes, size);
    RC_CHECK(pieces.size() == whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      RC_CHECK(pieces[i].data == whole[i].data && pieces[i].id == whole[i].id);
      RC_CHECK(pieces[i].retry == whole[i].retry);
    }
  }
}

}  // namespace recourse
