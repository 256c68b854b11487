#include "filters/call/traceparent.h"

#include "proxy/base/hex.h"

namespace recourse {
namespace {

constexpr std::size_t kTextBytes = 55;  // 2 + 1 + 32 + 1 + 16 + 1 + 2

bool IsId(std::string_view text) {
  return IsLowerHex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

bool TraceparentView::IsSampled() const {
  constexpr std::string_view kOdd = "13579bdf";
  return kOdd.find(flags[1]) != std::string_view::npos;
}

std::optional<TraceparentView> ReadTraceparent(std::string_view text) {
  if (text.size() < kTextBytes || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  const std::string_view version = text.substr(0, 2);
  if (!IsLowerHex(version) || version == "ff") return std::nullopt;
  if (text.size() > kTextBytes && (version == "00" || text[kTextBytes] != '-')) return std::nullopt;
  const TraceparentView trace{text.substr(3, 32), text.substr(36, 16), text.substr(53, 2)};
  if (!IsId(trace.trace_id) || !IsId(trace.parent_id) || !IsLowerHex(trace.flags)) {
    return std::nullopt;
  }
  return trace;
}

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  const auto read = ReadTraceparent(text);
  if (!read) return std::nullopt;
  return TraceContext{std::string(read->trace_id), std::string(read->parent_id),
                      std::string(read->flags), true};
}

}  // namespace recourse
