#include "proxy/lanes/client_stream.h"

#include "proxy/base/limits.h"

namespace recourse {

void ClientStream::Put(std::string_view piece) {
  if (is_gone_) return;
  queue_.append(piece);
  is_due_ = true;
  StartDraining();
}

void ClientStream::StartDraining() {
  if (std::exchange(is_draining_, true)) return;
  Spawn(Drain(), [] {});
}

Millis ClientStream::TimeFor(std::size_t bytes) const {
  return send_timeout_ + Millis(bytes / limits::kAnswerBytesPerMilliMin);
}

Task<void> ClientStream::Drain() {
  while (is_due_ && !is_gone_) {
    is_due_ = false;
    const std::string sending = std::exchange(queue_, {});
    const bool taken = co_await reply_.Send(
        ReplyPiece{.data = sending, .ends = ends_, .within = TimeFor(sending.size())});
    if (!taken) GiveUp();
    bytes_ += sending.size();
    if (waiter_ != nullptr && is_due_) std::exchange(waiter_, nullptr)->Set(true);
  }
  is_draining_ = false;
  if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->Set(true);
}

Task<void> ClientStream::AwaitDrain() {
  Promise<bool> taken;
  waiter_ = &taken;
  co_await taken.Wait();
}

Task<void> ClientStream::AwaitRoom(std::size_t most) {
  while (is_draining_ && queue_.size() > most) {
    const MonoTime began = clock_.Now();
    co_await AwaitDrain();
    waited_ += clock_.Now() - began;
    if (waited_ > TimeFor(bytes_)) GiveUp();
  }
}

void ClientStream::GiveUp() {
  is_gone_ = true;
  std::string().swap(queue_);
}

Task<bool> ClientStream::End(How how) {
  if (how == How::kWhole && !is_gone_) ends_ = is_due_ = true;
  StartDraining();
  while (is_draining_) co_await AwaitDrain();
  co_return !is_gone_;
}

}  // namespace recourse
