// The connections of the data plane, and what a coroutine awaits on them. An operation lives in the
// frame of who awaits it, so a read or a write allocates nothing.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <coroutine>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>

#include "proxy/base/check.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/send_permit.h"
#include "proxy/base/short_text.h"
#include "proxy/net/loop/deadline_wheel.h"
#include "proxy/net/loop/raw_syscalls.h"
#include "proxy/net/loop/reactor.h"
#include "proxy/net/loop/socket.h"
#include "proxy/net/tls/tls_stream.h"

namespace recourse {

// One of the open connections that `open` counts, as long as it lives.
class OpenCount {
 public:
  OpenCount() = default;
  explicit OpenCount(std::atomic<std::size_t>& open) : open_(&open) { ++open; }
  OpenCount(const OpenCount&) = delete;
  OpenCount& operator=(OpenCount&& other) noexcept {
    std::swap(open_, other.open_);
    return *this;
  }
  ~OpenCount() {
    if (open_ != nullptr) --*open_;
  }

 private:
  std::atomic<std::size_t>* open_ = nullptr;
};

namespace detail {
class Operation;
}  // namespace detail

// One TCP connection of the data plane, with or without TLS, and its deadline. At most one read and
// one write pending; both have ended when it is destroyed.
class Connection {
 public:
  // `socket` is connected, or is connecting.
  Connection(Socket socket, Reactor& reactor, DeadlineWheel& wheel)
      : descriptor(reactor, socket.Release()), deadline(wheel, &Connection::Expire, this) {}
  ~Connection() { RC_CHECK(pending_ == 0); }

  Descriptor descriptor;
  // Cancels whatever is pending. Operations started after it expired fail at once.
  Deadline deadline;
  IoError error;  // of the last failed operation
  PeerText peer;  // address of the backend that it leads to; empty: a client's
  OpenCount counted;
  // Set once the TCP connection stands, before anything else is done with it; null: plain.
  std::unique_ptr<TlsStream> tls;

  int socket() const { return descriptor.fd(); }
  // What is pending ends, unless it can be done without waiting.
  void Cancel() { descriptor.Cancel(); }
  // Looks whether TLS has data, or an end. The kernel has that no more, so who waits for it is
  // told.
  TlsStep PeekTls() {
    const TlsStep step = tls->Peek();
    if (step.want == TlsWant::kNothing) descriptor.Wake();
    return step;
  }
  // Nothing more is sent, and the peer sees that this is the end and no cut.
  void EndSending() {
    if (tls != nullptr) tls->SayGoodbye();
    ::shutdown(socket(), SHUT_WR);
  }
  // Neither side has anything more to say. What is pending sees the end.
  void Cut() { ::shutdown(socket(), SHUT_RDWR); }
  // Ends it at once, with all that is pending. To a TLS peer an end without SayGoodbye() is a cut.
  void Close() {
    descriptor.Close();
    deadline.Disarm();
  }

 private:
  friend class detail::Operation;
  // No Cancel(): who goes on by it and finds that there is a new deadline waits for that.
  static void Expire(void* self) { static_cast<Connection*>(self)->descriptor.Wake(); }

  int pending_ = 0;  // operations that have begun and will touch it once more
};

namespace detail {

// What the kernel has, without waiting. 0 with would_block: nothing yet.
inline std::size_t Receive(Connection& connection, std::span<char> room) {
  ssize_t got = 0;
  do {
    got = KernelRecv(connection.socket(), room.data(), room.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  connection.error = {};
  if (got > 0) {
    if (static_cast<std::size_t>(got) < room.size()) connection.descriptor.FoundLess();
    return static_cast<std::size_t>(got);
  }
  if (got == 0) {
    connection.error = boost::asio::error::eof;
  } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
    connection.descriptor.FoundNothing();
    connection.error = boost::asio::error::would_block;
  } else {
    connection.error = IoError(errno, boost::system::system_category());
  }
  return 0;
}

// As ::sendmsg. What is small is put together first: a system call with parts costs more than that.
inline ssize_t SendParts(int socket, std::span<const iovec> parts) {
  static constexpr std::size_t kGatheredMax = 2 * 1024;
  static constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  if (parts.size() == 1) {
    return KernelSend(socket, parts.front().iov_base, parts.front().iov_len, kFlags);
  }
  std::size_t size = 0;
  for (const iovec& part : parts) size += part.iov_len;
  if (size > kGatheredMax) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    return ::sendmsg(socket, &message, kFlags);
  }
  char gathered[kGatheredMax];
  char* end = gathered;
  for (const iovec& part : parts) {
    std::memcpy(end, part.iov_base, part.iov_len);
    end += part.iov_len;
  }
  return KernelSend(socket, gathered, size, kFlags);
}

// One operation and who awaits it. `Go` tries; what cannot be done yet parks and is tried again.
class Operation : public PendingOp {
 public:
  Operation(Connection& connection, Go go) : PendingOp(go), connection_(connection) {}

 protected:
  Connection& connection() const { return connection_; }
  // True, with connection.error set: it must not even be tried.
  bool IsOver() const {
    const bool is_over = connection_.deadline.expired() || !connection_.descriptor.is_open();
    connection_.error = {};
    if (is_over) connection_.error = boost::asio::error::operation_aborted;
    return is_over;
  }
  void Begin(std::coroutine_handle<> awaiting) {
    awaiting_ = awaiting;
    cancels_ = connection_.descriptor.cancels();
    ++connection_.pending_;
  }
  bool IsCanceled() const { return cancels_ != connection_.descriptor.cancels(); }
  void TryNextTurn() { connection_.descriptor.reactor().Queue(*this); }
  // The kernel has said that it has to wait.
  void Park(Ready what) {
    if (!IsCanceled()) return connection_.descriptor.Park(*this, what);
    connection_.error = boost::asio::error::operation_aborted;
    End();
  }
  // TLS has said so, who may have waited for something that has come meanwhile.
  void ParkUnlessReady(Ready what) {
    if (!IsCanceled() && connection_.descriptor.IsReady(what)) return TryNextTurn();
    Park(what);
  }
  void Park(TlsWant want) {
    ParkUnlessReady(want == TlsWant::kRead ? Ready::kRead : Ready::kWrite);
  }
  void End() {
    --connection_.pending_;
    awaiting_.resume();
  }

 private:
  Connection& connection_;
  std::coroutine_handle<> awaiting_{};
  std::uint32_t cancels_ = 0;
};

// `Room` gives the place for the bytes when it is their turn, and takes it back if none came.
template <class Room>
class ReadAwaiter final : Operation {
 public:
  ReadAwaiter(Connection& connection, Room room)
      : Operation(connection, &ReadAwaiter::Try), room_(room) {}

  bool await_ready() const { return IsOver(); }
  // Others have their turn first, if there is something to read already.
  void await_suspend(std::coroutine_handle<> awaiting) {
    Begin(awaiting);
    if (connection().tls != nullptr || connection().descriptor.may_read()) return TryNextTurn();
    room_.Drop();
    Park(Ready::kRead);
  }
  // 0: end of stream, or connection.error is set.
  std::size_t await_resume() const { return size_; }

 private:
  static void Try(PendingOp& self) { static_cast<ReadAwaiter&>(self).Read(); }
  void Read() {
    if (IsOver()) return End();
    if (connection().tls != nullptr) return ReadTls();
    size_ = Receive(connection(), room_.Take());
    if (connection().error != boost::asio::error::would_block) return End();
    room_.Drop();
    Park(Ready::kRead);
  }
  void ReadTls() {
    const std::span<char> to = room_.Take();
    const TlsStep step = connection().tls->Read(to.data(), to.size());
    if (step.want != TlsWant::kNothing) {
      room_.Drop();
      return Park(step.want);
    }
    connection().error = step.error;
    size_ = step.error ? 0 : step.size;
    End();
  }

  Room room_;
  std::size_t size_ = 0;
};

class ReadableAwaiter final : Operation {
 public:
  explicit ReadableAwaiter(Connection& connection) : Operation(connection, &ReadableAwaiter::Try) {}

  bool await_ready() const { return IsOver() || HasDecrypted(); }
  void await_suspend(std::coroutine_handle<> awaiting) {
    Begin(awaiting);
    if (connection().descriptor.may_read()) return TryNextTurn();
    Park(Ready::kRead);
  }
  bool await_resume() const { return !connection().error; }

 private:
  static void Try(PendingOp& self) { static_cast<ReadableAwaiter&>(self).Look(); }
  void Look() {
    if (IsOver() || HasDecrypted() || connection().descriptor.IsReady(Ready::kRead)) return End();
    Park(Ready::kRead);
  }
  // Of that the socket will not tell.
  bool HasDecrypted() const {
    return connection().tls != nullptr && connection().tls->Peek().want == TlsWant::kNothing;
  }
};

// Waits until the socket is what it has to be. False: canceled, or its deadline has passed.
class ReadyAwaiter final : Operation {
 public:
  ReadyAwaiter(Connection& connection, Ready what)
      : Operation(connection, &ReadyAwaiter::Try), what_(what) {}

  bool await_ready() const { return IsOver(); }
  void await_suspend(std::coroutine_handle<> awaiting) {
    Begin(awaiting);
    ParkUnlessReady(what_);
  }
  bool await_resume() const { return !connection().error; }

 private:
  static void Try(PendingOp& self) {
    auto& wait = static_cast<ReadyAwaiter&>(self);
    if (!wait.IsOver() && wait.IsCanceled()) {
      wait.connection().error = boost::asio::error::operation_aborted;
    }
    wait.End();
  }

  const Ready what_;
};

class WriteAwaiter final : Operation {
 public:
  static constexpr std::size_t kBuffersMax = 5;

  // `permit` is asked before each try; null: there is nothing to ask.
  WriteAwaiter(Connection& connection, SendPermit* permit)
      : Operation(connection, &WriteAwaiter::TryAgain), permit_(permit) {}
  void Add(std::string_view part) {
    if (!part.empty()) buffers_[count_++] = {const_cast<char*>(part.data()), part.size()};
  }

  // Sends in line: most messages fit the socket buffer. False: the rest has to be awaited.
  bool Try() {
    has_tried_ = true;
    return IsDone();
  }
  bool await_ready() { return !has_tried_ && Try(); }
  void await_suspend(std::coroutine_handle<> awaiting) {
    Begin(awaiting);
    Wait();
  }
  bool await_resume() const { return !connection().error; }
  std::size_t written() const { return written_; }
  bool was_refused() const { return was_refused_; }

 private:
  static void TryAgain(PendingOp& self) {
    auto& write = static_cast<WriteAwaiter&>(self);
    if (write.IsDone()) return write.End();
    write.Wait();
  }
  void Wait() {
    if (connection().tls != nullptr) return Park(want_);
    Park(Ready::kWrite);
  }
  // Sends what it can. True: all is written, or connection.error is set.
  bool IsDone() {
    connection().error = {};
    if (first_ == count_ || IsOver()) return true;
    if (permit_ == nullptr) return Send();
    was_refused_ = !permit_->Enter();
    if (was_refused_) {
      connection().error = boost::asio::error::operation_aborted;
      return true;
    }
    RC_CRASH_POINT("f2");
    const bool is_done = Send();
    permit_->Leave();
    return is_done;
  }
  bool Send() {
    if (connection().tls != nullptr) return StepTls();
    ssize_t sent = 0;
    do {
      sent = SendParts(connection().socket(), std::span(&buffers_[first_], count_ - first_));
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
      Skip(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
      connection().error = IoError(errno, boost::system::system_category());
      return true;
    }
    return first_ == count_;
  }
  bool StepTls() {
    while (first_ < count_) {
      const TlsStep step = connection().tls->Write(std::span(&buffers_[first_], count_ - first_));
      want_ = step.want;
      if (want_ != TlsWant::kNothing) return false;
      connection().error = step.error;
      if (step.error) return true;
      Skip(step.size);
    }
    return true;
  }
  void Skip(std::size_t bytes) {
    written_ += bytes;
    while (first_ < count_ && bytes >= buffers_[first_].iov_len)
      bytes -= buffers_[first_++].iov_len;
    if (first_ < count_ && bytes > 0) {
      buffers_[first_].iov_base = static_cast<char*>(buffers_[first_].iov_base) + bytes;
      buffers_[first_].iov_len -= bytes;
    }
  }

  std::array<iovec, kBuffersMax> buffers_{};
  std::size_t count_ = 0;
  std::size_t first_ = 0;
  std::size_t written_ = 0;
  SendPermit* const permit_;
  TlsWant want_ = TlsWant::kNothing;
  bool has_tried_ = false;
  bool was_refused_ = false;
};

// Waits for the end of the turn (Reactor::QueueLast).
class TurnEndAwaiter final : PendingOp {
 public:
  explicit TurnEndAwaiter(Reactor& reactor) : PendingOp(&TurnEndAwaiter::Go), reactor_(reactor) {}

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) {
    awaiting_ = awaiting;
    reactor_.QueueLast(*this);
  }
  void await_resume() const {}

 private:
  static void Go(PendingOp& self) { static_cast<TurnEndAwaiter&>(self).awaiting_.resume(); }

  Reactor& reactor_;
  std::coroutine_handle<> awaiting_{};
};

struct FixedRoom {
  std::span<char> room;
  std::span<char> Take() const { return room; }
  void Drop() const {}
};

}  // namespace detail

// Waits until the socket is ready for the next step of a TLS handshake. False: canceled, or its
// deadline has passed.
inline auto WaitForTls(Connection& connection, TlsWant want) {
  return detail::ReadyAwaiter(connection, want == TlsWant::kRead ? Ready::kRead : Ready::kWrite);
}

// Waits until it is known what became of connecting; then SO_ERROR says so. False as above.
inline auto WaitForConnect(Connection& connection) {
  return detail::ReadyAwaiter(connection, Ready::kWrite);
}

// Reads what is there, up to `capacity` > 0 bytes. 0: end of stream or connection.error is set.
inline auto ReadSome(Connection& connection, char* out, std::size_t capacity) {
  RC_CHECK(capacity > 0);
  return detail::ReadAwaiter(connection, detail::FixedRoom{{out, capacity}});
}

// Waits until bytes (or the end) can be read, and reads nothing. False: canceled or failed. (A TLS
// peer may have sent what is no data, so that this is no promise that there is some.)
inline auto WaitReadable(Connection& connection) { return detail::ReadableAwaiter(connection); }

// Before and after a message of at most kTogetherBytesMax is written: those of a turn then go out
// back to back. Their receivers stay awake for all of them, and waking somebody is a tenth of what
// a small read costs. A larger message would have left the processor's cache by then.
inline auto FlushAtTurnEnd(Reactor& reactor) { return detail::TurnEndAwaiter(reactor); }
inline constexpr std::size_t kTogetherBytesMax = 8 * 1024;

// Writes all parts with as few calls as possible. False: connection.error is set; the awaiter's
// written() tells how many bytes the kernel took (with TLS: in whole records). Who needs a deadline
// only for what does not go out at once calls Try() first. Where `permit` says no it was_refused().
inline auto WriteAll(Connection& connection, std::initializer_list<std::string_view> parts,
                     SendPermit* permit = nullptr) {
  detail::WriteAwaiter awaiter(connection, permit);
  RC_CHECK(parts.size() <= detail::WriteAwaiter::kBuffersMax);
  for (const std::string_view part : parts) awaiter.Add(part);
  return awaiter;
}

}  // namespace recourse
