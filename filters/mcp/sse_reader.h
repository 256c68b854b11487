// Server-sent events (HTML Living Standard 9.2.6) out of the pieces of a body. Pure, bounded.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace recourse {

struct SseEvent {
  std::string data;  // its data fields, joined by line feeds; empty: a comment, or only an id
  std::string id;
  std::string raw;  // as it came, up to and including the blank line
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
  bool is_inside_event() const;

 private:
  const std::size_t event_bytes_max_;
  std::string pending_;
  std::size_t scanned_ = 0;
  bool overflowed_ = false;
};

}  // namespace recourse
