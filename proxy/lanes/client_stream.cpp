#include "proxy/lanes/client_stream.h"

#include <fmt/format.h>

#include "proxy/base/limits.h"

namespace recourse {

void ClientStream::Begin(std::string_view head, Framing framing) {
  has_begun_ = true;
  framing_ = framing;
  queue_.append(head);
}

void ClientStream::Put(std::string_view piece) {
  if (is_gone_) return;
  const bool is_chunked = framing_ == Framing::kChunked && !piece.empty();
  if (is_chunked) queue_ += fmt::format("{:x}\r\n", piece.size());
  queue_.append(piece);
  if (is_chunked) queue_ += "\r\n";
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
  while (!queue_.empty() && !is_gone_) {
    const std::string sending = std::exchange(queue_, {});
    client_.deadline.Arm(clock_.Now() + TimeFor(sending.size()));
    if (!co_await WriteAll(client_, {sending})) GiveUp();
    client_.deadline.Disarm();
    bytes_ += sending.size();
    if (waiter_ != nullptr && !queue_.empty()) std::exchange(waiter_, nullptr)->Set(true);
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
  if (how == How::kWhole && framing_ == Framing::kChunked && !is_gone_) queue_ += "0\r\n\r\n";
  StartDraining();
  while (is_draining_) co_await AwaitDrain();
  co_return !is_gone_;
}

}  // namespace recourse
