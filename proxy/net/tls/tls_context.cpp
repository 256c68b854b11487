#include "proxy/net/tls/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstring>
#include <fstream>

#include "proxy/base/crypto/openssl_objects.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

std::unexpected<std::string> FileProblem(const std::string& file, const char* what) {
  const unsigned long code = ERR_peek_error();
  // Codes of the system have no text of OpenSSL's own.
  const char* const reason =
      ERR_SYSTEM_ERROR(code) ? std::strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
  std::string text = file + " " + what;
  if (reason != nullptr) text.append(" (").append(reason).append(")");
  return std::unexpected(std::move(text));
}

// Such a certificate is used all the same: whom we show it to decides, and its clock.
void WarnUnlessValidNow(SSL_CTX* context, const std::string& file) {
  const X509* const own = SSL_CTX_get0_certificate(context);
  if (own == nullptr) return;
  const bool has_expired = X509_cmp_current_time(X509_get0_notAfter(own)) < 0;
  if (!has_expired && X509_cmp_current_time(X509_get0_notBefore(own)) <= 0) return;
  Log(LogLevel::kWarn,
      has_expired ? "a certificate has expired, so peers will refuse it; renew it"
                  : "a certificate is not valid yet, so peers will refuse it; is the clock right?",
      {{"file", file}});
}

}  // namespace

FileState::FileState(std::vector<std::string> paths)
    : paths_(std::move(paths)), used_(Read()), seen_(used_) {}

Digest FileState::Read() const {
  std::string all;
  for (const std::string& path : paths_) {
    if (path.empty()) continue;
    std::ifstream in(path, std::ios::binary);
    std::string text(limits::kTlsFileBytesMax, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    AppendPart(all, text);
  }
  return Sha256(all);
}

bool FileState::HasChanged(Look look) {
  const Digest now = Read();
  const bool is_settled = now == seen_;
  seen_ = now;
  if (now == used_ || (look == Look::kSettled && !is_settled)) return false;
  used_ = now;
  return true;
}

void SslContextFree::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }

SslContextPtr NewTlsContext(const SSL_METHOD* method) {
  SslContextPtr context(SSL_CTX_new(method));
  if (context == nullptr) return context;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context.get(), 1);
  SSL_CTX_set_verify_depth(context.get(), limits::kTlsChainMax);
  SSL_CTX_set_default_passwd_cb(context.get(), &NoPassphrase);
  return context;
}

std::expected<void, std::string> ReadOwnCertificate(SSL_CTX* context, const std::string& chain,
                                                    const std::string& key) {
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, chain.c_str()) != 1) {
    return FileProblem(chain, "holds no readable certificate in PEM form");
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return FileProblem(key, "holds no readable PEM key for the certificate, without passphrase");
  }
  WarnUnlessValidNow(context, chain);
  return {};
}

std::expected<void, std::string> ReadTrusted(SSL_CTX* context, const std::string& ca_file) {
  ERR_clear_error();
  if (SSL_CTX_load_verify_file(context, ca_file.c_str()) != 1) {
    return FileProblem(ca_file, "holds no readable CA certificate in PEM form");
  }
  // A file that names an intermediate CA, or the peer itself, means just that one.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  return {};
}

}  // namespace recourse
