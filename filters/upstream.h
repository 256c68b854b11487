// How filters reach a backend. Implemented by proxy/net; scripted in tests.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "filters/call_keeper.h"
#include "filters/message.h"
#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/error.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/send_permit.h"
#include "proxy/base/task.h"

namespace recourse {

class Codec;  // filters/codec.h

// A backend's answer to one attempt, read whole up to its cap.
struct Answer {
  HttpResponse response;
  bool body_complete = true;  // framing says so; an answer that ends with the connection is not
  bool until_close = false;   // incomplete only because nothing but a clean close framed it
  // The body was larger than answer_bytes_max, or than there was room for; it holds the start.
  bool over_cap = false;
  // Set: why the body, which is not here, is shown to nobody; over_cap is set, too.
  std::string_view withheld;
  // The body went on to the client as it came. Cut: `timed_out` if its time was over.
  bool relayed = false, timed_out = false;
  // Set: the body is that message as application/json, without its id, whatever it came in.
  std::optional<MessageKind> message;
  // Set: it answers a message of that protocol, with one of its own or over HTTP alone.
  const Codec* codec = nullptr;

  // What it says is about the call or its session, whatever its status.
  bool tells_no_result() const { return codec != nullptr && message != MessageKind::kResult; }
};

// Takes an answer's body as it comes. One thread.
class BodySink {
 public:
  virtual ~BodySink() = default;
  // `head` is the answer without its body. False: no more is wanted, and the connection is closed.
  virtual Task<bool> Take(const HttpResponse& head, std::string_view piece) = 0;
  // How much of it is kept for now.
  virtual std::size_t kept() const { return 0; }
  // In place of a further piece: there is no memory for it, and the connection is closed.
  virtual void NoRoom() {}
};

// Passes an answer on to its client while it arrives. One thread.
class AnswerRelay {
 public:
  virtual ~AnswerRelay() = default;
  // False: the answer with this head is to be read whole. `length` of its body, if that is known.
  virtual bool Takes(const HttpResponse& head, std::optional<std::uint64_t> length) = 0;
  // The first piece, which may be empty, comes with the head. Returns when at most `queued_max`
  // bytes are left that the client has not taken; one that takes too long is waited for no more.
  virtual Task<void> Pass(std::string_view piece, std::size_t queued_max) = 0;
  // What came with the end of the body; it waits for the outcome. After a Pass().
  virtual void Keep(std::string_view last) = 0;
  // How much of it is held for the client.
  virtual std::size_t held() const = 0;
};

// Takes the messages that a server sends before its answer: progress, logs, requests to the client.
// One thread.
class InterimSink {
 public:
  virtual ~InterimSink() = default;
  // `event` is a whole server-sent event as it came, with its blank line. Bounded by the client's
  // pace; what the client does not take is dropped.
  virtual Task<void> Pass(std::string_view event) = 0;
};

// One connection to a backend, being opened or open. Belongs to one I/O thread.
class UpstreamConnection {
 public:
  virtual ~UpstreamConnection() = default;
  // Waits until the connection stands. Fails with kNotSent delivery only.
  virtual Task<Result<void>> Connected() = 0;
  // The address that it leads to, after Connected(); for the access log.
  virtual std::string_view Peer() const { return {}; }
  // It carried another call before.
  virtual bool IsReused() const { return false; }
  // Before Exchange; of servers that send messages. `sink` outlives the exchange.
  virtual void PassInterimTo(InterimSink* sink) { (void)sink; }
  // The same, for requests of Recourse's own (undo, settle, what was approved or is sent again):
  // the session that they name may be gone, and another one may be opened for them.
  virtual void MayOpenSession() {}
  // Before Exchange: the request is one message, and this is its id as it stands there. Who has
  // read the message says so, that it need not be read again.
  virtual void KnowsMessageId(const std::string& id) { (void)id; }
  // Before Exchange: each piece of the request is sent only if `permit` lets it; null: always. What
  // it stops before the first byte fails with kNotSent delivery. It outlives the exchange.
  virtual void SendOnlyWith(SendPermit* permit) { (void)permit; }
  // Before Exchange: the answer is held for that call. Where there is no room in time, the answer
  // is cut as one that is too large. `keeper` outlives the exchange.
  virtual void HoldAnswerFor(CallKeeper* keeper) { (void)keeper; }
  // Before Exchange: the body goes to the client as well, if `relay` takes it, however large it is;
  // what stands in the answer is over_cap then, and the rest is read all the same. `relay` outlives
  // the exchange.
  virtual void RelayAnswerTo(AnswerRelay* relay) { (void)relay; }
  // Before Exchange: these fields go with the request, in place of its own of those names.
  virtual void AddFields(Headers fields) { (void)fields; }
  // Before Exchange: the body goes to `sink`, which outlives the exchange and bounds what it takes,
  // instead of into the answer. An answer whose sink wanted no more is not complete.
  virtual void GiveBodyTo(BodySink* sink) = 0;
  // Sends the request and reads the answer, then closes or keeps it. Call once, after Connected().
  // On failure error().delivery() is the truth about what was sent: kNotSent only if the kernel
  // took no byte of the request on a fresh connection, or if the backend said that its TLS
  // handshake with us has failed. Interim (1xx) answers are skipped; 101 ends the attempt.
  virtual Task<Result<Answer>> Exchange(const HttpRequest& request, MonoTime deadline,
                                        std::size_t answer_bytes_max) = 0;
};

class Upstream {
 public:
  virtual ~Upstream() = default;
  // Starts to connect at once (resolve, connect) and returns without waiting, so that the ledger
  // can commit meanwhile. Never reuses a connection: a stale one would make outcomes unknown.
  virtual std::unique_ptr<UpstreamConnection> Open(const Backend& backend) = 0;
  // The same for the call of an agent, which may go on a connection that carried one just before if
  // `backend->write_reuse`.
  virtual std::unique_ptr<UpstreamConnection> OpenForCall(std::shared_ptr<const Backend> backend) {
    return Open(*backend);
  }
};

}  // namespace recourse
