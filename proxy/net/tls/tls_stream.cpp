#include "proxy/net/tls/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <cstring>

namespace recourse {
namespace {

// One record's worth.
constexpr std::size_t kGatherBytes = 16 * 1024;

// Alerts with which a peer refuses a handshake (RFC 8446 6.2); later ones say something else.
bool RefusesHandshake(int alert) {
  static constexpr std::array kRefusals{
      SSL_AD_HANDSHAKE_FAILURE,   SSL_AD_BAD_CERTIFICATE,     SSL_AD_UNSUPPORTED_CERTIFICATE,
      SSL_AD_CERTIFICATE_REVOKED, SSL_AD_CERTIFICATE_EXPIRED, SSL_AD_CERTIFICATE_UNKNOWN,
      SSL_AD_UNKNOWN_CA,          SSL_AD_ACCESS_DENIED,       SSL_AD_CERTIFICATE_REQUIRED};
  return std::find(kRefusals.begin(), kRefusals.end(), alert) != kRefusals.end();
}

// Those of them that are about the certificate, whatever a client's library calls an unknown CA.
bool RefusesCertificate(int alert) {
  return alert == SSL_AD_BAD_CERTIFICATE || alert == SSL_AD_UNSUPPORTED_CERTIFICATE ||
         alert == SSL_AD_CERTIFICATE_REVOKED || alert == SSL_AD_CERTIFICATE_EXPIRED ||
         alert == SSL_AD_CERTIFICATE_UNKNOWN || alert == SSL_AD_UNKNOWN_CA;
}

std::string_view CertificateProblem(long result) {
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "the backend's certificate, or one above it, has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "the backend's certificate, or one above it, is not valid yet; compare the clocks";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "the backend's certificate is for another name than the url's host or tls.server_name";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return "the backend's certificate is self-signed and is not in tls.ca_file";
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return "the backend's certificate comes from a CA that is not trusted; name it in "
             "tls.ca_file";
    case X509_V_ERR_INVALID_PURPOSE:
      return "the backend's certificate is not meant for a server";
    case X509_V_ERR_EE_KEY_TOO_SMALL:
    case X509_V_ERR_CA_KEY_TOO_SMALL:
    case X509_V_ERR_CA_MD_TOO_WEAK:
      return "the backend's certificate, or one above it, has a key or a digest that is too weak";
    default:
      return "the backend's certificate cannot be verified";
  }
}

std::string_view Refusal(int alert) {
  switch (alert) {
    case SSL_AD_CERTIFICATE_REQUIRED:
      return "the backend wants a client certificate; name one in tls.client_cert and client_key";
    case SSL_AD_PROTOCOL_VERSION:
      return "the backend speaks no TLS 1.2 or newer";
    case SSL_AD_UNRECOGNIZED_NAME:
      return "the backend does not know the name that it was asked for; see tls.server_name";
    case SSL_AD_CERTIFICATE_EXPIRED:
      return "the backend says that our client certificate has expired";
    case SSL_AD_UNKNOWN_CA:
      return "the backend does not trust the CA of our client certificate";
    default:
      return "the backend refused the TLS handshake; is a client certificate missing or wrong?";
  }
}

}  // namespace

void SslFree::operator()(SSL* ssl) const { SSL_free(ssl); }

TlsStream::TlsStream(SslPtr ssl, std::shared_ptr<const void> context)
    : context_(std::move(context)), ssl_(std::move(ssl)) {}

TlsStream::~TlsStream() {
  // A connection that just closes says nothing against its session, which may be resumed.
  if (!failed_ && !send_failed_)
    SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

TlsStep TlsStream::Outcome(int result, std::size_t size) {
  if (result == 1) return {TlsWant::kNothing, {}, size};
  const int system_error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {TlsWant::kRead, {}, 0};
    case SSL_ERROR_WANT_WRITE:
      return {TlsWant::kWrite, {}, 0};
    case SSL_ERROR_ZERO_RETURN:
      return {TlsWant::kNothing, boost::asio::error::eof, 0};
    default:
      break;
  }
  failed_ = true;
  reason_ = ERR_peek_error();
  const int reason = ERR_GET_REASON(reason_);
  if (ERR_GET_LIB(reason_) == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET) {
    const int alert = reason - SSL_AD_REASON_OFFSET;
    // In TLS 1.2 both sides have finished by then: such an alert may come after the request was
    // read (a server that asks for a certificate only then).
    const bool may_still_refuse = SSL_version(ssl_.get()) >= TLS1_3_VERSION;
    if (!is_secure_ || (may_still_refuse && RefusesHandshake(alert))) alert_ = alert;
  }
  closed_ = reason_ == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  // Of a failed call of the system the queue may say nothing.
  const bool gave_up = reason_ == 0 && system_error == ETIMEDOUT;
  if (gave_up || (ERR_GET_LIB(reason_) == ERR_LIB_SYS && system_error != 0)) {
    return {TlsWant::kNothing, {system_error, boost::system::system_category()}, 0};
  }
  return {TlsWant::kNothing, boost::asio::error::connection_aborted, 0};
}

TlsStep TlsStream::Handshake() {
  ERR_clear_error();
  const TlsStep step = Outcome(SSL_do_handshake(ssl_.get()), 0);
  is_secure_ = step.want == TlsWant::kNothing && !step.error;
  return step;
}

TlsStep TlsStream::Read(char* out, std::size_t capacity) {
  if (failed_) return {TlsWant::kNothing, boost::asio::error::connection_aborted, 0};
  ERR_clear_error();
  std::size_t size = 0;
  const int result = SSL_read_ex(ssl_.get(), out, capacity, &size);
  received_any_ = received_any_ || size > 0;
  return Outcome(result, size);
}

TlsStep TlsStream::Write(std::span<const iovec> parts) {
  if (failed_ || send_failed_)
    return {TlsWant::kNothing, boost::asio::error::connection_aborted, 0};
  ERR_clear_error();
  char gathered[kGatherBytes];
  const void* data = parts.front().iov_base;
  std::size_t size = parts.front().iov_len;
  if (size < kGatherBytes && parts.size() > 1) {
    // A repeat after kWrite gathers the same bytes again, as OpenSSL demands.
    data = gathered;
    size = 0;
    for (const iovec& part : parts) {
      const std::size_t taken = std::min(part.iov_len, kGatherBytes - size);
      std::memcpy(gathered + size, part.iov_base, taken);
      size += taken;
    }
  }
  const std::uint64_t before = BIO_number_written(SSL_get_wbio(ssl_.get()));
  std::size_t written = 0;
  const int result = SSL_write_ex(ssl_.get(), data, size, &written);
  if (BIO_number_written(SSL_get_wbio(ssl_.get())) != before) sending_ = true;
  const TlsStep step = Outcome(result, written);
  if (step.error) {
    send_failed_ = true;
    failed_ = false;
  }
  return step;
}

TlsStep TlsStream::Peek() {
  if (failed_) return {TlsWant::kNothing, boost::asio::error::connection_aborted, 0};
  ERR_clear_error();
  char byte = 0;
  std::size_t size = 0;
  return Outcome(SSL_peek_ex(ssl_.get(), &byte, 1, &size), size);
}

// OpenSSL does not count a header whose record has not begun to come as pending.
bool TlsStream::HasPart() const {
  return SSL_has_pending(ssl_.get()) == 1 ||
         std::string_view(SSL_rstate_string(ssl_.get())) == "RB";
}

void TlsStream::SayGoodbye() {
  if (failed_ || send_failed_ || !SSL_is_init_finished(ssl_.get())) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
}

ClientFailure TlsStream::WhyClientFailed() const {
  if (RefusesCertificate(alert_)) return ClientFailure::kUntrusted;
  if (closed_) return ClientFailure::kClosed;
  switch (ERR_GET_LIB(reason_) == ERR_LIB_SSL ? ERR_GET_REASON(reason_) : 0) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
      return ClientFailure::kVersion;
    case SSL_R_NO_APPLICATION_PROTOCOL:
      return ClientFailure::kProtocol;
    default:
      return ClientFailure::kOther;
  }
}

std::string_view TlsStream::ClientProblem() const {
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK) return X509_verify_cert_error_string(verified);
  switch (WhyClientFailed()) {
    case ClientFailure::kClosed:
      return "the client closed during the handshake";
    case ClientFailure::kVersion:
      return "the client speaks no TLS 1.2 or newer";
    case ClientFailure::kProtocol:
      return "the client offers other protocols than http/1.1 only";
    case ClientFailure::kUntrusted:
      return "the client does not trust the certificate that it was shown";
    case ClientFailure::kOther:
      break;
  }
  switch (ERR_GET_LIB(reason_) == ERR_LIB_SSL ? ERR_GET_REASON(reason_) : 0) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
      return "the client speaks no TLS, but this port does; use https";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return "the client showed no certificate; --tls-client-ca asks for one";
    default:
      break;
  }
  const char* const text = ERR_reason_error_string(reason_);
  return text == nullptr ? std::string_view("the handshake failed") : std::string_view(text);
}

Error TlsStream::HandshakeError() const {
  const auto error = [](ErrorCode code, std::string_view detail) {
    return Error(code, detail, Delivery::kNotSent);
  };
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK) return error(ErrorCode::kTlsCertificate, CertificateProblem(verified));
  if (alert_ != 0) return error(ErrorCode::kTlsRefused, Refusal(alert_));
  if (closed_) {
    return error(ErrorCode::kTlsProtocol, "the backend closed during the TLS handshake");
  }
  switch (ERR_GET_LIB(reason_) == ERR_LIB_SSL ? ERR_GET_REASON(reason_) : 0) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
      return error(ErrorCode::kTlsProtocol, "the backend speaks no TLS 1.2 or newer");
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_RECORD_LENGTH_MISMATCH:
      return error(
          ErrorCode::kTlsProtocol,
          "the backend does not speak TLS on this port; is the url's scheme or port wrong?");
    default:
      return error(ErrorCode::kTlsProtocol, "the TLS handshake with the backend failed");
  }
}

}  // namespace recourse
