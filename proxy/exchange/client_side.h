// Who has sent a request, beside what is read from it and said to it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/waiting_clients.h"
#include "policy/uri/authority.h"
#include "proxy/net/http1/message_head.h"
#include "proxy/net/message/body_decoder.h"

namespace recourse {

// Something that lasts, and is to end soon when the process is to stop.
class Drainable {
 public:
  virtual void Drain() = 0;

 protected:
  ~Drainable() = default;
};

// The bytes of a connection, for who speaks no HTTP on it any more.
struct RawConnection {
  Connection& connection;
  ReadBuffer& buffer;  // what came early
};

class ClientSide : public ClientLink {
 public:
  // What can be seen without reading.
  enum class State : std::uint8_t { kSilent, kSpeaks, kClosed, kReset };
  virtual State Look() = 0;
  // The same, as soon as it is not silent; kSilent: StopAwaiting() was called, or time was over.
  virtual Task<State> Await() = 0;
  virtual void StopAwaiting() = 0;
  // Whether an answer that went out whole has come to it.
  virtual Task<bool> HasTaken() = 0;
  // It has the answer of that attempt, as far as anybody can tell.
  virtual void MarkAnswered(AttemptId answered) = 0;

  // From here on another protocol, as `head` of the backend agrees to; or a tunnel, which a CONNECT
  // has asked for, or of which its client knows nothing. Null: the client has not taken the word,
  // or what carries it has no bytes of its own.
  virtual Task<std::optional<RawConnection>> Upgrade(const Head& head, std::uint64_t dropped,
                                                     std::string_view protocol,
                                                     std::span<char> room) = 0;
  virtual Task<std::optional<RawConnection>> AcceptConnect() = 0;
  virtual std::optional<RawConnection> TakeOver() = 0;
  // After AcceptConnect(): what comes are requests to the backend at `target`.
  virtual void EnterTunnel(Authority target) = 0;
  // What lasts now; null: it is over.
  virtual void Drains(Drainable* running) = 0;
};

}  // namespace recourse
