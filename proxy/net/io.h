// Sockets and the awaiters of the data plane. Operation memory lives in the connection, so a read
// or a write allocates nothing (performance.md 6.4).
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <coroutine>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "proxy/base/check.h"
#include "proxy/base/frame_arena.h"
#include "proxy/net/deadline.h"
#include "proxy/net/tls_stream.h"

namespace recourse {

using IoContext = boost::asio::io_context;
using Tcp = boost::asio::ip::tcp;
using TcpSocket = boost::asio::basic_stream_socket<Tcp, IoContext::executor_type>;
using IoError = boost::system::error_code;

// Room for one pending operation; falls back to the heap for what does not fit.
class OperationMemory {
 public:
  void* Allocate(std::size_t size) {
    if (!used_ && size <= sizeof bytes_) {
      used_ = true;
      return bytes_;
    }
    return ::operator new(size);
  }
  void Free(void* memory) {
    if (memory == bytes_) {
      used_ = false;
    } else {
      ::operator delete(memory);
    }
  }

 private:
  alignas(std::max_align_t) unsigned char bytes_[256];
  bool used_ = false;
};

template <class T>
class OperationAllocator {
 public:
  using value_type = T;
  explicit OperationAllocator(OperationMemory& memory) : memory_(&memory) {}
  template <class U>
  // Implicit, as the allocator requirements ask. NOLINTNEXTLINE(google-explicit-constructor)
  OperationAllocator(const OperationAllocator<U>& other) : memory_(other.memory_) {}
  T* allocate(std::size_t count) { return static_cast<T*>(memory_->Allocate(count * sizeof(T))); }
  void deallocate(T* pointer, std::size_t) { memory_->Free(pointer); }
  friend bool operator==(const OperationAllocator& a, const OperationAllocator& b) {
    return a.memory_ == b.memory_;
  }

 private:
  template <class>
  friend class OperationAllocator;
  OperationMemory* memory_;
};

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

// One TCP connection of the data plane, with or without TLS, and its deadline. At most one read and
// one write pending.
class Connection {
 public:
  // `at_work` is how many requests its thread is serving.
  Connection(TcpSocket socket, DeadlineWheel& wheel, FrameArena& frames, const std::size_t& at_work)
      : socket(std::move(socket)),
        deadline(wheel, &Connection::Expire, this),
        frames_(frames),
        at_work_(at_work) {}

  TcpSocket socket;
  OperationMemory read_memory, write_memory;
  // Cancels whatever is pending. Operations started after it expired fail at once.
  Deadline deadline;
  IoError error;     // of the last failed operation
  std::string peer;  // address of the backend that it leads to; empty: a client's
  OpenCount counted;
  // Set once the TCP connection stands, before anything else is done with it; null: plain.
  std::unique_ptr<TlsStream> tls;

  FrameArena& frames() { return frames_; }
  // Nobody else on this thread has something to do that a read could let go first. What TLS reads
  // may be there already, and would be read on one stack without end.
  bool IsAlone() const { return at_work_ <= 1 && tls == nullptr; }
  // Nothing more is sent, and the peer sees that this is the end and no cut.
  void EndSending() {
    IoError ignored;
    if (tls != nullptr) tls->SayGoodbye();
    socket.shutdown(TcpSocket::shutdown_send, ignored);
  }
  // Ends it at once. To a TLS peer an end without SayGoodbye() is a cut.
  void Close() {
    IoError ignored;
    socket.close(ignored);
    deadline.Disarm();
  }

 private:
  static void Expire(void* self) {
    IoError ignored;
    static_cast<Connection*>(self)->socket.cancel(ignored);
  }

  FrameArena& frames_;
  const std::size_t& at_work_;
};

namespace detail {

// What the kernel has, without waiting. 0 with would_block: nothing yet.
inline std::size_t Receive(Connection& connection, boost::asio::mutable_buffer room) {
  const ssize_t got =
      ::recv(connection.socket.native_handle(), room.data(), room.size(), MSG_DONTWAIT);
  connection.error = {};
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) {
    connection.error = boost::asio::error::eof;
  } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
    connection.error = boost::asio::error::would_block;
  } else {
    connection.error = IoError(errno, boost::system::system_category());
  }
  return 0;
}

template <class Awaiter>
struct ResumeHandler {
  using allocator_type = OperationAllocator<char>;
  allocator_type get_allocator() const noexcept { return allocator_type(*awaiter->memory); }
  void operator()(IoError ec = {}, std::size_t size = 0) const { awaiter->Done(ec, size); }
  Awaiter* awaiter;
};

// Goes on with a step of TLS when the socket has become what the step wanted.
template <class Awaiter>
struct AgainHandler {
  using allocator_type = OperationAllocator<char>;
  allocator_type get_allocator() const noexcept { return allocator_type(*awaiter->memory); }
  void operator()(IoError ec = {}) const {
    if (!ec && awaiter->connection.deadline.expired()) ec = boost::asio::error::operation_aborted;
    awaiter->Again(ec);
  }
  Awaiter* awaiter;
};

template <class Awaiter>
void AwaitTls(Awaiter* awaiter, TlsWant want) {
  awaiter->connection.socket.async_wait(
      want == TlsWant::kRead ? TcpSocket::wait_read : TcpSocket::wait_write,
      AgainHandler<Awaiter>{awaiter});
}

// `Room` says where the bytes go, when there is reason to think that there are some.
template <class Room>
struct ReadAwaiter {
  Connection& connection;
  Room room;
  OperationMemory* memory;
  std::coroutine_handle<> handle{};
  std::size_t size = 0;

  // Other ready sessions run first: by then the data is usually there, which saves a useless recv
  // and a wake-up (performance.md 2d). Who is alone only loses time by that.
  struct Later {
    using allocator_type = OperationAllocator<char>;
    allocator_type get_allocator() const noexcept { return allocator_type(*awaiter->memory); }
    void operator()() const { awaiter->Start(); }
    ReadAwaiter* awaiter;
  };

  bool await_ready() const {
    connection.error = {};
    if (connection.deadline.expired()) connection.error = boost::asio::error::operation_aborted;
    return connection.deadline.expired();
  }
  void await_suspend(std::coroutine_handle<> awaiting) {
    handle = awaiting;
    if (connection.IsAlone()) return Wait();
    boost::asio::post(connection.socket.get_executor(), Later{this});
  }
  void Start() {
    if (connection.deadline.expired()) return Done(boost::asio::error::operation_aborted, 0);
    if (connection.tls != nullptr) return Again({});
    const std::size_t got = Receive(connection, room());
    if (connection.error == boost::asio::error::would_block) return Wait();
    Done(connection.error, got);
  }
  void Wait() { connection.socket.async_read_some(room(), ResumeHandler<ReadAwaiter>{this}); }
  void Again(IoError ec) {
    if (ec) return Done(ec, 0);
    const boost::asio::mutable_buffer to = room();
    const TlsStep step = connection.tls->Read(static_cast<char*>(to.data()), to.size());
    if (step.want != TlsWant::kNothing) return AwaitTls(this, step.want);
    Done(step.error, step.size);
  }
  void Done(IoError ec, std::size_t count) {
    connection.error = ec;
    size = ec ? 0 : count;
    handle.resume();
  }
  std::size_t await_resume() const { return size; }
};

// Yields once, then takes what the kernel has without waiting.
struct ReadNowAwaiter {
  Connection& connection;
  char* out;
  std::size_t capacity;
  OperationMemory* memory;
  std::coroutine_handle<> handle{};

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) {
    handle = awaiting;
    boost::asio::post(connection.socket.get_executor(), ResumeHandler<ReadNowAwaiter>{this});
  }
  void Done(IoError, std::size_t) { handle.resume(); }
  std::size_t await_resume() const {
    if (connection.tls != nullptr) {
      const TlsStep step = connection.tls->Read(out, capacity);
      connection.error =
          step.want == TlsWant::kNothing ? step.error : IoError(boost::asio::error::would_block);
      return step.size;
    }
    return Receive(connection, {out, capacity});
  }
};

struct ReadableAwaiter {
  Connection& connection;
  OperationMemory* memory;
  std::coroutine_handle<> handle{};

  // What expired before this began cancels nothing any more, and would wait for ever. What TLS has
  // decrypted already, the socket will not tell of.
  bool await_ready() const {
    connection.error = {};
    if (connection.deadline.expired()) connection.error = boost::asio::error::operation_aborted;
    return connection.deadline.expired() ||
           (connection.tls != nullptr && connection.tls->Peek().want == TlsWant::kNothing);
  }
  void await_suspend(std::coroutine_handle<> awaiting) {
    handle = awaiting;
    connection.socket.async_wait(TcpSocket::wait_read, ResumeHandler<ReadableAwaiter>{this});
  }
  void Done(IoError ec, std::size_t) {
    connection.error = ec;
    handle.resume();
  }
  bool await_resume() const { return !connection.error; }
};

// Waits until the socket is what a step of TLS wants. False: canceled or failed.
struct TlsReadyAwaiter {
  Connection& connection;
  TlsWant want;
  OperationMemory* memory;
  std::coroutine_handle<> handle{};

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) {
    handle = awaiting;
    AwaitTls(this, want);
  }
  void Again(IoError ec) {
    connection.error = ec;
    handle.resume();
  }
  bool await_resume() const { return !connection.error; }
};

struct WriteAwaiter {
  static constexpr std::size_t kBuffersMax = 5;
  Connection& connection;
  OperationMemory* memory;
  std::array<iovec, kBuffersMax> buffers{};
  std::size_t count = 0;
  std::size_t first = 0;
  std::size_t written = 0;
  TlsWant want = TlsWant::kNothing;
  std::coroutine_handle<> handle{};
  bool has_tried = false;

  void Skip(std::size_t bytes) {
    written += bytes;
    while (first < count && bytes >= buffers[first].iov_len) bytes -= buffers[first++].iov_len;
    if (first < count && bytes > 0) {
      buffers[first].iov_base = static_cast<char*>(buffers[first].iov_base) + bytes;
      buffers[first].iov_len -= bytes;
    }
  }
  bool await_ready() { return !has_tried && Try(); }
  // Sends in line first: most messages fit the socket buffer. False: the rest has to be awaited.
  bool Try() {
    has_tried = true;
    connection.error = {};
    Skip(0);
    if (first == count) return true;
    if (connection.deadline.expired()) {
      connection.error = boost::asio::error::operation_aborted;
      return true;
    }
    if (connection.tls != nullptr) return StepTls();
    msghdr message{};
    message.msg_iov = &buffers[first];
    message.msg_iovlen = count - first;
    const ssize_t sent =
        ::sendmsg(connection.socket.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      Skip(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      connection.error = IoError(errno, boost::system::system_category());
      return true;
    }
    return first == count;
  }
  void await_suspend(std::coroutine_handle<> awaiting) {
    handle = awaiting;
    More();
  }
  // True: all is written, or connection.error is set.
  bool StepTls() {
    while (first < count) {
      const TlsStep step = connection.tls->Write(std::span(&buffers[first], count - first));
      want = step.want;
      if (want != TlsWant::kNothing) return false;
      connection.error = step.error;
      if (step.error) return true;
      Skip(step.size);
    }
    return true;
  }
  void Again(IoError ec) {
    connection.error = ec;
    if (ec || StepTls()) {
      handle.resume();
    } else {
      AwaitTls(this, want);
    }
  }
  void More() {
    if (connection.tls != nullptr) return AwaitTls(this, want);
    std::array<boost::asio::const_buffer, kBuffersMax> rest;
    for (std::size_t i = first; i < count; ++i) {
      rest[i - first] = boost::asio::const_buffer(buffers[i].iov_base, buffers[i].iov_len);
    }
    connection.socket.async_write_some(rest, ResumeHandler<WriteAwaiter>{this});
  }
  void Done(IoError ec, std::size_t size) {
    Skip(size);
    if (!ec && connection.deadline.expired()) ec = boost::asio::error::operation_aborted;
    connection.error = ec;
    if (ec || first == count) {
      handle.resume();
    } else {
      More();
    }
  }
  bool await_resume() const { return !connection.error; }
};

}  // namespace detail

// Waits until the socket is ready for the next step of a TLS handshake.
inline auto WaitForTls(Connection& connection, TlsWant want) {
  return detail::TlsReadyAwaiter{connection, want, &connection.read_memory};
}

// Reads what is there, up to `capacity` > 0 bytes. 0: end of stream or connection.error is set.
inline auto ReadSome(Connection& connection, char* out, std::size_t capacity) {
  RC_CHECK(capacity > 0);
  const auto room = [out, capacity] { return boost::asio::mutable_buffer(out, capacity); };
  return detail::ReadAwaiter{connection, room, &connection.read_memory};
}

// Reads what is there already, after other ready sessions have run. 0 with error would_block:
// nothing yet; use WaitReadable, which needs no buffer meanwhile. (A TLS peer may have sent what is
// no data, so that WaitReadable is no promise that there is some.)
inline auto ReadNow(Connection& connection, char* out, std::size_t capacity) {
  return detail::ReadNowAwaiter{connection, out, capacity, &connection.read_memory};
}

// Waits until bytes (or the end) can be read, holding no buffer. False: canceled or failed.
inline auto WaitReadable(Connection& connection) {
  return detail::ReadableAwaiter{connection, &connection.read_memory};
}

// Writes all parts with as few calls as possible. False: connection.error is set; the awaiter's
// `written` tells how many bytes the kernel took (with TLS: in whole records). Who needs a deadline
// only for what does not go out at once calls Try() first.
inline auto WriteAll(Connection& connection, std::initializer_list<std::string_view> parts) {
  detail::WriteAwaiter awaiter{connection, &connection.write_memory};
  RC_CHECK(parts.size() <= detail::WriteAwaiter::kBuffersMax);
  for (const std::string_view part : parts) {
    if (part.empty()) continue;
    awaiter.buffers[awaiter.count++] = {const_cast<char*>(part.data()), part.size()};
  }
  return awaiter;
}

}  // namespace recourse
