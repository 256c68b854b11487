// An exchange with a backend over a connection of its own.
#pragma once

#include <memory>
#include <optional>

#include "proxy/net/message/upstream_stream.h"
#include "proxy/net/upstream/connector.h"

namespace recourse {

class SocketStream final : public UpstreamStream {
 public:
  // What the pool has to know of it.
  struct Origin {
    const Backend* backend = nullptr;
    std::shared_ptr<const Backend> held;  // so that its address means no other one meanwhile
    UpstreamStreams::Terms terms;
    std::uint64_t era = 0;
  };

  // All outlive Connected(), which makes the connection where there is none.
  SocketStream(IoThread& thread, const OwnListeners& own, Origin origin,
               std::unique_ptr<Connection> connection = nullptr)
      : thread_(thread),
        own_(own),
        origin_(std::move(origin)),
        connection_(std::move(connection)) {}

  const Origin& origin() const { return origin_; }
  Connection& connection() { return *connection_; }
  // The exchange is over; another one may follow.
  void Rest();
  void Reuse(UpstreamStreams::Terms terms) {
    origin_.terms = terms;
    is_reused_ = true;
    connection_->deadline.Reset();
  }

  Task<Result<void>> Connected(MonoTime latest) override;
  const PeerText& peer() const override { return connection_->peer; }
  Sight Look() override;
  std::optional<Error> Refusal() const override;
  void Arm(MonoTime until) override {
    if (connection_ != nullptr) connection_->deadline.Arm(until);
  }
  bool expired() const override;
  bool BeginSend(Parts parts, SendPermit* permit) override;
  Sent EndSend() override;
  bool HasEndedCleanly() const override;
  void Cut() override { connection_->Cut(); }
  void Close(bool politely) override;
  void KeepAlive() override;
  void DropUnacknowledged(Millis most) override;
  Progress Arrived() const override;
  void DropNow() override { Reset(connection_->socket()); }
  Connection* raw() override { return connection_.get(); }

 protected:
  void AwaitSend(std::coroutine_handle<> then) override { sending_->await_suspend(then); }
  bool BeginRead(ReadBuffer& buffer, std::size_t most, std::coroutine_handle<> then) override;
  std::size_t EndRead() override { return reading_->await_resume(); }

 private:
  IoThread& thread_;
  const OwnListeners& own_;
  Origin origin_;
  std::unique_ptr<Connection> connection_;  // null: not connected yet
  bool drops_ = false;
  bool sent_late_ = false;  // the kernel gave a send up
  // Those on their way; here, lest each have a frame of its own.
  std::optional<detail::WriteAwaiter> sending_;
  std::optional<detail::ReadAwaiter<detail::BufferRoom>> reading_;
};

}  // namespace recourse
