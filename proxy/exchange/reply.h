// The answer to one request, whatever carries it: framing, and what becomes of the connection, are
// the carrier's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "proxy/base/http/http_message.h"
#include "proxy/net/http1/message_head.h"
#include "proxy/net/loop/io_thread.h"

namespace recourse {

// The head of a backend's answer as it goes on. What is rendered in `room` stands there until the
// first piece has gone out.
struct PassedHead {
  const Head& head;
  std::uint64_t dropped = 0;  // fields that do not, by Bit(FieldId)
  bool answers_head = false;  // the request was HEAD
  bool may_keep = false;      // nothing is missing of the request
  std::span<char> room;
};

struct ReplyPiece {
  std::string_view data;
  std::string_view addition{};  // goes behind it, if the answer may grow
  bool ends = false;            // the answer is whole with it
  Millis within{};              // what the client may take for it
  bool is_together = false;     // if it is small, with others of the turn
};

class Reply {
 public:
  virtual ~Reply() = default;

  // A whole one. True: another request may follow.
  virtual Task<bool> Send(const HttpResponse& response, bool may_keep) = 0;
  // Its head; pieces follow, the first of which takes the head along. False: it cannot be written,
  // and nothing of it goes out.
  virtual bool Begin(const PassedHead& head) = 0;
  virtual bool Begin(const HttpResponse& head, std::optional<std::uint64_t> length,
                     bool may_keep) = 0;
  // `piece` outlives the task. False: the client has not taken it.
  virtual Task<bool> Send(const ReplyPiece& piece) = 0;
  // The framing lets something be added at the end.
  virtual bool may_grow() const = 0;
  // An interim one of a backend, before all that; rendered in `room`.
  enum class Interim : std::uint8_t { kSent, kUnwritable, kGone };
  virtual Task<Interim> SendInterim(const Head& head, std::uint64_t dropped,
                                    std::span<char> room) = 0;

  // It breaks off, which the client must see even where only the close would tell.
  virtual void Cut() = 0;
  bool is_cut() const { return is_cut_; }
  // After one that has begun another request may follow.
  bool keeps() const { return keeps_; }
  void KeepNot() { keeps_ = false; }
  // The connection ends after it, while the client may be sending: a reset would take it away.
  bool lingers() const { return lingers_; }
  void Linger(bool lingers) { lingers_ = lingers; }

 protected:
  bool keeps_ = false;
  bool lingers_ = false;
  bool is_cut_ = false;
};

}  // namespace recourse
