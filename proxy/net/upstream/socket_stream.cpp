#include "proxy/net/upstream/socket_stream.h"

#include <netinet/tcp.h>

#include <utility>

#include "proxy/net/tls/tls_client.h"

namespace recourse {

Task<Result<void>> SocketStream::Connected(MonoTime latest) {
  auto connected = co_await Connect(thread_, *origin_.backend, own_, latest);
  if (!connected) co_return std::unexpected(connected.error());
  connection_ = std::move(*connected);
  co_return Result<void>();
}

UpstreamStream::Sight SocketStream::Look() {
  if (connection_->tls != nullptr) {
    const TlsWant want = connection_->tls->Peek().want;
    if (want == TlsWant::kNothing) return Sight::kLeft;
    const bool is_quiet = want == TlsWant::kRead && !connection_->tls->HasPart();
    return is_quiet ? Sight::kQuiet : Sight::kBegun;
  }
  char byte;
  const ssize_t got = KernelRecv(connection_->socket(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Sight::kQuiet : Sight::kLeft;
}

std::optional<Error> SocketStream::Refusal() const {
  if (connection_->tls == nullptr || !connection_->tls->refused_by_peer()) return std::nullopt;
  return connection_->tls->HandshakeError();
}

bool SocketStream::BeginSend(Parts parts, SendPermit* permit) {
  RC_CHECK(parts.size() <= detail::WriteAwaiter::kBuffersMax);
  sending_.emplace(*connection_, permit);
  for (const std::string_view part : parts) sending_->Add(part);
  return sending_->Try();
}

UpstreamStream::Sent SocketStream::EndSend() {
  const bool whole = sending_->await_resume();
  sent_late_ = !whole && connection_->error == boost::asio::error::timed_out;
  return {.whole = whole,
          .any = whole || sending_->written() > 0 ||
                 (connection_->tls != nullptr && connection_->tls->sending()),
          .was_refused = sending_->was_refused()};
}

// The kernel may be a moment earlier than the deadline, as it ends the connection by it.
bool SocketStream::expired() const {
  return connection_->deadline.expired() || sent_late_ ||
         connection_->error == boost::asio::error::timed_out;
}

bool SocketStream::BeginRead(ReadBuffer& buffer, std::size_t most, std::coroutine_handle<> then) {
  reading_.emplace(*connection_, detail::BufferRoom{buffer, most});
  if (reading_->await_ready()) return false;
  reading_->await_suspend(then);
  return true;
}

bool SocketStream::HasEndedCleanly() const {
  return !connection_->error || connection_->error == boost::asio::error::eof;
}

void SocketStream::Rest() {
  connection_->deadline.Disarm();
  if (std::exchange(drops_, false)) SetAtClose(connection_->socket(), AtClose::kSendsOn);
}

// From here on also where the process is killed: the kernel closes what that had open.
void SocketStream::DropUnacknowledged(Millis most) {
  if (!std::exchange(drops_, true)) SetAtClose(connection_->socket(), AtClose::kDrops);
  EndUnacknowledgedAfter(connection_->socket(), most);
}

UpstreamStream::Progress SocketStream::Arrived() const {
  const Delivered found = DeliveredBy(connection_->socket());
  return {found.acknowledged, found.missing};
}

void SocketStream::Close(bool politely) {
  // Where all has arrived there is nothing to drop, and a reset would only alarm the backend.
  if (drops_ && Arrived().missing == 0) SetAtClose(connection_->socket(), AtClose::kSendsOn);
  if (politely && connection_->tls != nullptr) connection_->tls->SayGoodbye();
  connection_->Close();
}

void SocketStream::KeepAlive() {
  // Found out in some minutes.
  const int on = 1, idle_s = 60, interval_s = 15, probes = 8;
  const int socket = connection_->socket();
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace recourse
