#include "proxy/lanes/read_waits.h"

#include <algorithm>

#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

Task<void> WatchClient(ReadState& read) {
  using State = ClientSide::State;
  const State state = co_await read.exchange.client.Await();
  MonoTime until = read.request.Now();
  if (state == State::kReset) {
    read.request.record.client_gone = true;
    read.left = true;
  } else if (state == State::kClosed) {
    // A half-close is no abort; one that left completely shows at the next write. Until then
    // it gets less time.
    read.half_closed = true;
    until = read.answering ? until + limits::kHalfClosedIdleTimeout
                           : std::min(read.head_due, until + limits::kReadFirstByteTimeout);
  }
  const bool shortens = read.left || read.half_closed;
  if (shortens && read.upstream != nullptr) read.upstream->Arm(until);
  read.watched.Set(true);
}

}  // namespace

Millis QuietMax(const ReadState& read) {
  if (read.half_closed) return limits::kHalfClosedIdleTimeout;
  const Millis usual = read.request.services.bounds.stream_timeout;
  return read.is_listening ? std::max<Millis>(usual, limits::kListenQuiet) : usual;
}

MonoTime FirstLook(const ReadState& read, MonoTime now) {
  return std::min(read.head_due, now + limits::kClientLook);
}

MonoTime AnswerDue(const ReadState& read, MonoTime now) {
  if (!read.watching) return FirstLook(read, now);
  // Of a second attempt: what the watch saw before this one had a connection counts here, too.
  if (read.left) return now;
  if (!read.half_closed) return read.head_due;
  return std::min(read.head_due, now + limits::kReadFirstByteTimeout);
}

void StartWatch(ReadState& read) {
  read.watching = true;
  Spawn(WatchClient(read), [] {});
}

}  // namespace recourse
