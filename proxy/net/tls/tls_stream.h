// TLS on one socket, one step at a time: each call does what it can without waiting and says what
// the socket must become before it can go on. Knows neither coroutines nor deadlines (io.h does).
#pragma once

#include <openssl/types.h>
#include <sys/uio.h>

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "proxy/base/error.h"

namespace recourse {

enum class TlsWant : std::uint8_t { kNothing, kRead, kWrite };

struct TlsStep {
  TlsWant want = TlsWant::kNothing;  // kNothing: done, or failed with `error`
  boost::system::error_code error;
  std::size_t size = 0;  // bytes of data moved
};

// What kept a client from a handshake with us.
enum class ClientFailure : std::uint8_t {
  kClosed,     // it went away
  kVersion,    // it speaks no TLS 1.2 or newer
  kProtocol,   // it offers other protocols than http/1.1 only
  kUntrusted,  // it said that it does not like our certificate
  kOther,
};

struct SslFree {
  void operator()(SSL* ssl) const;
};
using SslPtr = std::unique_ptr<SSL, SslFree>;

// Belongs to the thread of its connection. The socket is non-blocking and outlives it.
class TlsStream {
 public:
  // `ssl` has its socket and its role. `context` is whatever the SSL's callbacks need to live.
  TlsStream(SslPtr ssl, std::shared_ptr<const void> context);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // After a failure, HandshakeError() says why.
  TlsStep Handshake();
  // error eof: the peer said that it is done. An end of the TCP stream without that is an error of
  // its own: what came may have been cut (RFC 9112 9.8).
  TlsStep Read(char* out, std::size_t capacity);
  // Takes from the parts in order, small ones together in one record.
  TlsStep Write(std::span<const iovec> parts);
  // Like Read, and takes nothing: size 1 when there is data.
  TlsStep Peek();
  // After a Peek() that found no data: a part of a record is here, which may become some.
  bool HasPart() const;
  // Tells the peer that nothing more comes, so that it knows the end from a cut. Never waits.
  void SayGoodbye();

  // Why the handshake with a backend failed: kTlsCertificate, kTlsRefused or kTlsProtocol, with
  // delivery kNotSent.
  Error HandshakeError() const;
  // Why the handshake with a client failed; in words, for the log.
  ClientFailure WhyClientFailed() const;
  std::string_view ClientProblem() const;
  // The peer turned our certificate or our offer down, which in TLS 1.3 is heard only after our
  // first data. It ends the handshake on the peer's side: no byte of that data was read as a
  // request.
  bool refused_by_peer() const { return alert_ != 0 && !received_any_; }
  // Bytes of data may have left in a record that is not complete yet.
  bool sending() const { return sending_; }
  SSL* ssl() const { return ssl_.get(); }
  const void* context() const { return context_.get(); }

 private:
  TlsStep Outcome(int result, std::size_t size);

  const std::shared_ptr<const void> context_;
  const SslPtr ssl_;
  unsigned long reason_ = 0;  // OpenSSL's, of the failure
  int alert_ = 0;             // with which the peer refused the handshake
  bool is_secure_ = false;    // the handshake has ended here; an alert makes OpenSSL forget that
  bool failed_ = false;
  bool send_failed_ = false;  // what the peer said before may still be read, such as why
  bool closed_ = false;       // the TCP stream ended without a goodbye
  bool sending_ = false;
  bool received_any_ = false;
};

}  // namespace recourse
