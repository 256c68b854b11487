// Server-sent events (HTML Living Standard 9.2.6) out of the pieces of a body. Pure, bounded.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace recourse {

struct SseEvent {
  std::string data;  // its data fields, joined by line feeds; empty: a comment, or only an id
  std::string id;
  std::optional<std::chrono::milliseconds> retry;  // how long to wait before coming back
  std::string raw;                                 // as it came, up to and including the blank line
};

class SseReader {
 public:
  // An event larger than `event_bytes_max` ends the reading: overflowed() from then on.
  explicit SseReader(std::size_t event_bytes_max) : event_bytes_max_(event_bytes_max) {}
  void Feed(std::string_view piece);
  // The next whole event, nullopt when more is needed.
  std::optional<SseEvent> Next();
  bool overflowed() const { return overflowed_; }
  // Bytes of an event are here whose end has not come.
  std::size_t pending() const { return pending_.size(); }
  bool is_inside_event() const { return !pending_.empty(); }

 private:
  const std::size_t event_bytes_max_;
  std::string pending_;
  std::size_t scanned_ = 0;   // where the line begins whose end is not known yet
  std::size_t sought_ = 0;    // no line ends between there and here
  bool ended_by_cr_ = false;  // the last event; a line feed that follows belongs to it
  bool is_first_ = true;      // a byte order mark may stand before it
  bool overflowed_ = false;
};

}  // namespace recourse
