#include "filters/mcp/sse_reader.h"

#include <algorithm>
#include <charconv>

namespace recourse {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr long long kRetryMsMax = 24LL * 3'600'000;

// Takes one line with its end off the front of `rest`.
std::string_view TakeLine(std::string_view& rest) {
  const auto end = std::min(rest.find_first_of("\r\n"), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end);
  if (rest.starts_with("\r\n")) {
    rest.remove_prefix(2);
  } else if (!rest.empty()) {
    rest.remove_prefix(1);
  }
  return line;
}

void TakeField(std::string_view line, SseEvent& event, bool& has_data) {
  const auto colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value =
      colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    if (has_data) event.data.push_back('\n');
    has_data = true;
    event.data.append(value);
  } else if (name == "id") {
    if (value.find('\0') == std::string_view::npos) event.id = value;
  } else if (name == "retry") {
    long long ms = 0;
    const auto [after, ec] = std::from_chars(value.data(), value.data() + value.size(), ms);
    const bool is_number = ec == std::errc() && after == value.data() + value.size() && ms >= 0;
    if (is_number) event.retry = std::chrono::milliseconds(std::min(ms, kRetryMsMax));
  }
}

}  // namespace

void SseReader::Feed(std::string_view piece) {
  if (overflowed_) return;
  if (ended_by_cr_ && pending_.empty() && !piece.empty()) {
    // It was passed on with its event's blank line, as the bare CR that it could have been.
    if (piece.front() == '\n') piece.remove_prefix(1);
    ended_by_cr_ = false;
  }
  pending_.append(piece);
}

std::optional<SseEvent> SseReader::Next() {
  while (!overflowed_) {
    const auto end = pending_.find_first_of("\r\n", sought_);
    if (end == std::string::npos) {
      sought_ = pending_.size();
      overflowed_ = pending_.size() > event_bytes_max_;
      return std::nullopt;
    }
    const bool is_blank = end == scanned_;
    const bool is_cr = pending_[end] == '\r';
    std::size_t next = end + 1;
    if (is_cr && next == pending_.size() && !is_blank) {
      // Not known yet whether the line ends here or with the byte to come.
      sought_ = end;
      overflowed_ = pending_.size() > event_bytes_max_;
      return std::nullopt;
    }
    if (is_cr && next < pending_.size() && pending_[next] == '\n') ++next;
    scanned_ = sought_ = next;
    if (next > event_bytes_max_) {
      overflowed_ = true;
      return std::nullopt;
    }
    if (!is_blank) continue;
    ended_by_cr_ = is_cr && next == pending_.size() && pending_[next - 1] == '\r';
    SseEvent event;
    event.raw = pending_.substr(0, next);
    pending_.erase(0, next);
    scanned_ = sought_ = 0;
    std::string_view rest = event.raw;
    if (is_first_ && rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
    is_first_ = false;
    bool has_data = false;
    while (!rest.empty()) {
      const std::string_view line = TakeLine(rest);
      if (!line.empty() && line.front() != ':') TakeField(line, event, has_data);
    }
    return event;
  }
  return std::nullopt;
}

}  // namespace recourse
