// The bytes of one exchange with a backend, of a read or of a write. Over a socket in
// proxy/net/upstream; scripted in tests.
#pragma once

#include <coroutine>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>

#include "proxy/base/clock.h"
#include "proxy/base/error.h"
#include "proxy/base/send_permit.h"
#include "proxy/base/short_text.h"
#include "proxy/base/task.h"
#include "proxy/net/message/body_decoder.h"

namespace recourse {

struct Backend;

// One thread. At most one send and one read are on their way, and both have ended when it is
// destroyed.
class UpstreamStream {
 public:
  using Parts = std::initializer_list<std::string_view>;

  virtual ~UpstreamStream() = default;

  // Before all else, unless it was kept: waits until it stands, no longer than its backend's
  // connect_timeout and `latest`. Fails with delivery kNotSent only.
  virtual Task<Result<void>> Connected(MonoTime latest) = 0;
  // It carried another exchange before.
  bool is_reused() const { return is_reused_; }
  // The address that it leads to; for the access log.
  virtual const PeerText& peer() const = 0;

  // What the backend has done though nothing was sent.
  enum class Sight : std::uint8_t {
    kQuiet,
    kBegun,  // a part of a TLS record is here, on a fresh one that of a session ticket
    kLeft,   // it has closed, or spoken
  };
  virtual Sight Look() = 0;
  // The backend says that its TLS handshake with us has failed: it has read no request.
  virtual std::optional<Error> Refusal() const = 0;

  // Until when what is on its way may take; ends what is awaited then. Nothing before Connected().
  virtual void Arm(MonoTime until) = 0;
  // That was reached; whatever begins fails until the next Arm().
  virtual bool expired() const = 0;

  struct Sent {
    bool whole = false;
    bool any = false;          // a byte of it may have left
    bool was_refused = false;  // by the permit, which let no more of it go
  };
  // Sends what goes without waiting. False: SendEnded() is to be awaited. Then EndSend() tells.
  virtual bool BeginSend(Parts parts, SendPermit* permit = nullptr) = 0;
  virtual Sent EndSend() = 0;
  auto SendEnded() {
    struct Awaiter {
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> then) const { stream.AwaitSend(then); }
      void await_resume() const {}
      UpstreamStream& stream;
    };
    return Awaiter{*this};
  }
  // All of that; gives what EndSend() tells.
  auto Send(Parts parts, SendPermit* permit = nullptr) {
    struct Awaiter {
      bool await_ready() const { return is_done; }
      void await_suspend(std::coroutine_handle<> then) const { stream.AwaitSend(then); }
      Sent await_resume() const { return stream.EndSend(); }
      UpstreamStream& stream;
      bool is_done;
    };
    return Awaiter{*this, BeginSend(parts, permit)};
  }

  // Before the first byte of a request that must not arrive once it was given up: what the backend
  // has not acknowledged is dropped when this is closed, or the process ends; and by the kernel
  // when nothing was acknowledged for `most`. Until it is kept. Again: another `most`.
  virtual void DropUnacknowledged(Millis most) = 0;
  struct Progress {
    std::uint64_t acknowledged = 0;  // bytes, all in all
    std::size_t missing = 0;         // that were sent, and are not acknowledged
    bool operator==(const Progress&) const = default;
  };
  virtual Progress Arrived() const = 0;
  // Drops it now. On whatever thread, when that of the stream has ended.
  virtual void DropNow() = 0;

  // Reads what is there into the buffer, which has free space or no memory yet, and holds none
  // while it waits without unread bytes. Gives how much: at most `most`; 0: it has ended.
  auto Read(ReadBuffer& buffer, std::size_t most = limits::kRelayBufferBytes) {
    struct Awaiter {
      bool await_ready() const { return false; }
      bool await_suspend(std::coroutine_handle<> then) const {
        return stream.BeginRead(buffer, most, then);
      }
      std::size_t await_resume() const { return stream.EndRead(); }
      UpstreamStream& stream;
      ReadBuffer& buffer;
      const std::size_t most;
    };
    return Awaiter{*this, buffer, most};
  }
  // After Read() gave 0: the backend has said that this is the end.
  virtual bool HasEndedCleanly() const = 0;

  // Neither side has anything more to say; what is pending sees the end.
  virtual void Cut() = 0;
  // Ends it at once, with all that is pending; politely: the backend is told that it is no cut.
  virtual void Close(bool politely) = 0;
  // It may be silent for long: a backend that is gone without a word is found out all the same.
  virtual void KeepAlive() = 0;
  // For who speaks no HTTP on it any more; null: it has no connection of its own.
  virtual Connection* raw() = 0;

 protected:
  // `then` goes on when BeginSend() has come to its end; never before it returns.
  virtual void AwaitSend(std::coroutine_handle<> then) = 0;
  // False: EndRead() tells at once. True: `then` goes on when it does, never before this returns.
  virtual bool BeginRead(ReadBuffer& buffer, std::size_t most, std::coroutine_handle<> then) = 0;
  virtual std::size_t EndRead() = 0;

  bool is_reused_ = false;
};

// Opens streams, and keeps those that may carry another exchange. Belongs to one I/O thread.
class UpstreamStreams {
 public:
  virtual ~UpstreamStreams() = default;

  // Reads and writes do not share kept ones: what a read left may be older.
  enum class For : std::uint8_t { kRead, kWrite };
  struct Terms {
    For use = For::kRead;
    bool takes_kept = false;  // one that carried such an exchange before, if there is one
    bool is_kept = false;     // it may be kept after this one
  };
  // Waits for nothing. `backend` outlives Connected(), and the stream if it is kept and `held`,
  // which holds it then, is null: until all that was kept is cleared.
  virtual std::unique_ptr<UpstreamStream> Open(const Backend& backend, Terms terms, MonoTime now,
                                               std::shared_ptr<const Backend> held = nullptr) = 0;
  // The answer was read whole on one that was opened here, and nothing more came: it is kept for
  // `idle`, where it may be.
  virtual void Give(std::unique_ptr<UpstreamStream> stream, Millis idle, MonoTime now) = 0;
};

}  // namespace recourse
