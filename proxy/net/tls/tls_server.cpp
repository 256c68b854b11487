#include "proxy/net/tls/tls_server.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <string_view>

#include "proxy/base/crypto/openssl_objects.h"
#include "proxy/net/tls/tls_identity.h"

namespace recourse {
namespace {

// HTTP/1.1, or no handshake: a client that speaks something else only must not be misunderstood.
int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* size, const unsigned char* in,
                   unsigned int in_size, void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, size, kAlpnHttp11, sizeof kAlpnHttp11, in, in_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

CertificateNames NamesOf(X509* certificate) {
  CertificateNames names;
  const std::unique_ptr<GENERAL_NAMES, OpensslFree<GENERAL_NAMES_free>> alternatives(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(alternatives.get(), i);
    if (name->type == GEN_URI) names.uris.push_back(Asn1Text(*name->d.uniformResourceIdentifier));
    if (name->type == GEN_DNS) names.dns.push_back(Asn1Text(*name->d.dNSName));
  }
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at >= 0)
    names.common_name = Asn1Text(*X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  return names;
}

}  // namespace

// Null when out of memory.
std::shared_ptr<TlsServer> TlsServer::New() {
  std::shared_ptr<TlsServer> server(new TlsServer);
  server->context_ = NewTlsContext(TLS_server_method());
  SSL_CTX* const context = server->context_.get();
  if (context == nullptr) return nullptr;
  SSL_CTX_set_alpn_select_cb(context, &ChooseProtocol, nullptr);
  // Nothing is resumed: every connection shows its certificate, and shows it to the present CA.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(context, 0);
  return server;
}

std::expected<std::shared_ptr<const TlsServer>, std::string> TlsServer::Make(
    const TlsServerFiles& files) {
  const std::shared_ptr<TlsServer> server = New();
  if (server == nullptr) return std::unexpected("OpenSSL cannot make a TLS context");
  SSL_CTX* const context = server->context_.get();
  if (auto own = ReadOwnCertificate(context, files.certificate, files.key); !own) {
    return std::unexpected(own.error());
  }
  if (!files.client_ca.empty()) {
    if (auto trusted = ReadTrusted(context, files.client_ca); !trusted) {
      return std::unexpected(trusted.error());
    }
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(files.client_ca.c_str()));
    const int demand = files.client_may_be_unknown ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | demand, nullptr);
    server->identifies_ = true;
  }
  return server;
}

WallTime TlsServer::CertificateEnd() const {
  const X509* const own = SSL_CTX_get0_certificate(context_.get());
  return own == nullptr ? WallTime() : EndOf(*own);
}

std::shared_ptr<const TlsServer> TlsServer::MakeFor(X509& certificate, EVP_PKEY& key,
                                                    const std::vector<X509Ptr>* above) {
  std::shared_ptr<TlsServer> server = New();
  if (server == nullptr) return nullptr;
  SSL_CTX* const context = server->context_.get();
  bool is_done = SSL_CTX_use_certificate(context, &certificate) == 1 &&
                 SSL_CTX_use_PrivateKey(context, &key) == 1;
  for (std::size_t i = 0; above != nullptr && i < above->size(); ++i) {
    is_done = is_done && SSL_CTX_add1_chain_cert(context, (*above)[i].get()) == 1;
  }
  ERR_clear_error();
  return is_done ? std::move(server) : nullptr;
}

std::unique_ptr<TlsStream> TlsServer::NewStream(const std::shared_ptr<const TlsServer>& server,
                                                int socket) {
  SslPtr ssl = NewSsl(*server);
  if (ssl == nullptr || SSL_set_fd(ssl.get(), socket) != 1) return nullptr;
  SSL_set_accept_state(ssl.get());
  return std::make_unique<TlsStream>(std::move(ssl), server);
}

std::unique_ptr<TlsStream> TlsServer::NewStreamInside(
    const std::shared_ptr<const TlsServer>& server, int socket, std::unique_ptr<TlsStream> outer,
    std::string_view early) {
  struct Parts {
    std::shared_ptr<const TlsServer> server;
    std::unique_ptr<TlsStream> outer;
  };
  SslPtr ssl = NewSsl(*server);
  BioPtr below(outer == nullptr ? BIO_new_socket(socket, BIO_NOCLOSE) : BIO_new(BIO_f_ssl()));
  BioPtr first(BIO_new(BIO_f_buffer()));
  if (ssl == nullptr || below == nullptr || first == nullptr) return nullptr;
  if (outer != nullptr) BIO_set_ssl(below.get(), outer->ssl(), BIO_NOCLOSE);
  if (!early.empty() && BIO_set_buffer_read_data(first.get(), const_cast<char*>(early.data()),
                                                 static_cast<long>(early.size())) != 1) {
    return nullptr;
  }
  BIO_up_ref(below.get());
  SSL_set0_wbio(ssl.get(), below.get());
  SSL_set0_rbio(ssl.get(), BIO_push(first.release(), below.release()));
  SSL_set_accept_state(ssl.get());
  return std::make_unique<TlsStream>(std::move(ssl),
                                     std::make_shared<const Parts>(server, std::move(outer)));
}

SslPtr TlsServer::NewSsl(const TlsServer& server) { return SslPtr(SSL_new(server.context_.get())); }

std::optional<std::string> CallerOf(const TlsStream& stream) { return CallerOf(stream.ssl()); }

std::optional<std::string> CallerOf(const SSL* ssl) {
  const X509Ptr certificate(SSL_get1_peer_certificate(ssl));
  if (certificate == nullptr) return std::nullopt;
  auto identity = IdentityOf(NamesOf(certificate.get()));
  ERR_clear_error();
  return identity;
}

}  // namespace recourse
