// TLS on the listener for agents.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/net/tls/tls_context.h"
#include "proxy/net/tls/tls_stream.h"
#include "proxy/net/tls/x509.h"

namespace recourse {

struct TlsServerFiles {
  std::string certificate;  // with its chain, PEM
  std::string key;          // PEM, without passphrase
  std::string client_ca;    // PEM; empty: no client certificate is asked for
  // A client may come without one; one that it shows must be good all the same.
  bool client_may_be_unknown = false;
};

// What one reading of the files gave; shared by all threads, replaced when they are read again.
class TlsServer {
 public:
  // Fails with a sentence that names the file.
  static std::expected<std::shared_ptr<const TlsServer>, std::string> Make(
      const TlsServerFiles& files);

  // One that shows this certificate, with those above it (null: none), and asks clients for none.
  // Null when OpenSSL fails.
  static std::shared_ptr<const TlsServer> MakeFor(X509& certificate, EVP_PKEY& key,
                                                  const std::vector<X509Ptr>* above);

  // A server on an accepted, non-blocking socket, before its handshake. Null when out of memory.
  static std::unique_ptr<TlsStream> NewStream(const std::shared_ptr<const TlsServer>& server,
                                              int socket);

  // The same on a connection that has carried other things before: `early` was read from it
  // already, and `outer` is its TLS so far (null: none), inside of which this one goes on.
  static std::unique_ptr<TlsStream> NewStreamInside(const std::shared_ptr<const TlsServer>& server,
                                                    int socket, std::unique_ptr<TlsStream> outer,
                                                    std::string_view early);

  // As NewStream, for whoever moves the bytes himself.
  static SslPtr NewSsl(const TlsServer& server);

  // Clients have to show a certificate of the client CA, unless they may be unknown.
  bool identifies() const { return identifies_; }

  // When its certificate ends to be valid; the epoch when that cannot be read.
  WallTime CertificateEnd() const;

 private:
  TlsServer() = default;
  static std::shared_ptr<TlsServer> New();

  SslContextPtr context_;
  bool identifies_ = false;
};

// After a handshake of a server that identifies: the caller's identity (tls_identity.h). Empty when
// the certificate names none that can be used.
std::optional<std::string> CallerOf(const TlsStream& stream);
std::optional<std::string> CallerOf(const SSL* ssl);

}  // namespace recourse
