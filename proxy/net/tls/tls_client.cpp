#include "proxy/net/tls/tls_client.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

bool IsAddress(const std::string& host) {
  in6_addr out{};
  return inet_pton(AF_INET, host.c_str(), &out) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &out) == 1;
}

bool IsTooOld(const SSL_SESSION* session, WallTime now) {
  const auto made = WallTime(std::chrono::seconds(SSL_SESSION_get_time(session)));
  return now - made > limits::kTlsSessionAgeMax || made - now > limits::kTlsSessionAgeMax;
}

}  // namespace

void SslSessionFree::operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }

TlsClient::TlsClient(const Backend& backend)
    : ca_file_(backend.tls_ca_file),
      certificate_(backend.tls_client_cert),
      key_(backend.tls_client_key),
      name_(backend.tls_server_name.empty() ? backend.host : backend.tls_server_name),
      is_address_(IsAddress(name_)),
      files_({ca_file_, certificate_, key_}) {}

std::expected<std::shared_ptr<TlsClient>, std::string> TlsClient::Make(const Backend& backend) {
  std::shared_ptr<TlsClient> client(new TlsClient(backend));
  auto reading = client->Read();
  if (!reading) return std::unexpected(reading.error());
  client->Use(std::move(*reading));
  return client;
}

std::expected<std::shared_ptr<TlsClient::Reading>, std::string> TlsClient::Read() const {
  auto reading = std::make_shared<Reading>();
  reading->context = NewTlsContext(TLS_client_method());
  if (reading->context == nullptr) return std::unexpected("OpenSSL cannot make a TLS context");
  SSL_CTX* const context = reading->context.get();
  if (ca_file_.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) != 1) {
      return std::unexpected("the system's trust store cannot be read; name a ca_file");
    }
  } else if (auto trusted = ReadTrusted(context, ca_file_); !trusted) {
    return std::unexpected(trusted.error());
  }
  if (!certificate_.empty()) {
    auto own = ReadOwnCertificate(context, certificate_, key_);
    if (!own) return std::unexpected(own.error());
  }
  // OpenSSL verifies nothing unless it is told to.
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_alpn_protos(context, kAlpnHttp11, sizeof kAlpnHttp11);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  SSL_CTX_sess_set_new_cb(context, &TlsClient::KeepSession);
  SSL_CTX_set_app_data(context, reading.get());
  return reading;
}

void TlsClient::Use(std::shared_ptr<Reading> reading) {
  const std::lock_guard lock(mutex_);
  reading_ = std::move(reading);
  present_ = reading_.get();
}

std::expected<bool, std::string> TlsClient::Refresh(FileState::Look look) {
  if (!files_.HasChanged(look)) return false;
  auto reading = Read();
  if (!reading) return std::unexpected(reading.error());
  Use(std::move(*reading));
  return true;
}

// Called by OpenSSL with a session of its own reference; 1 keeps it. The stream of `ssl` keeps the
// reading alive.
int TlsClient::KeepSession(SSL* ssl, SSL_SESSION* session) {
  if (SSL_SESSION_is_resumable(session) != 1) return 0;
  auto* const reading = static_cast<Reading*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const std::lock_guard lock(reading->mutex);
  if (reading->sessions.size() >= limits::kTlsSessionsPerBackendMax) {
    reading->sessions.erase(reading->sessions.begin());
  }
  reading->sessions.emplace_back(session);
  return 1;
}

// A session is used once, as TLS 1.3 asks; the handshake that resumes it yields the next one.
void TlsClient::Resume(Reading& reading, SSL* ssl, WallTime now) {
  SslSessionPtr session;
  {
    const std::lock_guard lock(reading.mutex);
    auto& sessions = reading.sessions;
    std::erase_if(sessions, [&](const auto& kept) { return IsTooOld(kept.get(), now); });
    if (sessions.empty()) return;
    session = std::move(sessions.back());
    sessions.pop_back();
    // A TLS 1.2 session serves any number of connections, and resuming it yields no other.
    if (SSL_SESSION_get_protocol_version(session.get()) == TLS1_2_VERSION &&
        SSL_SESSION_up_ref(session.get()) == 1) {
      sessions.emplace_back(session.get());
    }
  }
  SSL_set_session(ssl, session.get());
}

std::unique_ptr<TlsStream> TlsClient::NewStream(int socket, WallTime now) {
  std::shared_ptr<Reading> reading;
  {
    const std::lock_guard lock(mutex_);
    reading = reading_;
  }
  SslPtr ssl(SSL_new(reading->context.get()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), socket) != 1) return nullptr;
  X509_VERIFY_PARAM* const expected = SSL_get0_param(ssl.get());
  // Only what the subjectAltName says counts, and a wildcard stands for one whole label.
  X509_VERIFY_PARAM_set_hostflags(
      expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  const int named = is_address_
                        ? X509_VERIFY_PARAM_set1_ip_asc(expected, name_.c_str())
                        : X509_VERIFY_PARAM_set1_host(expected, name_.c_str(), name_.size()) &&
                              SSL_set_tlsext_host_name(ssl.get(), name_.c_str());
  if (named != 1) return nullptr;
  Resume(*reading, ssl.get(), now);
  SSL_set_connect_state(ssl.get());
  return std::make_unique<TlsStream>(std::move(ssl), std::move(reading));
}

bool TlsClient::SpeaksHttp11(const TlsStream& stream) {
  const unsigned char* chosen = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(stream.ssl(), &chosen, &size);
  return size == 0 || std::string_view(reinterpret_cast<const char*>(chosen), size) == "http/1.1";
}

std::expected<void, std::string> TlsClients::PrepareOne(Backend& backend) {
  if (backend.scheme != "https") return {};
  std::string words;
  for (const std::string& word : {backend.host, backend.tls_server_name, backend.tls_ca_file,
                                  backend.tls_client_cert, backend.tls_client_key}) {
    AppendPart(words, word);
  }
  AppendPart(words, std::to_string(backend.port));
  backend.tls = clients_[words].lock();
  if (backend.tls != nullptr) return {};
  auto client = TlsClient::Make(backend);
  if (!client) return std::unexpected(client.error());
  backend.tls = std::move(*client);
  clients_[words] = backend.tls;
  return {};
}

std::expected<void, std::string> TlsClients::Prepare(Policy& policy) {
  const std::lock_guard lock(mutex_);
  std::expected<void, std::string> result;
  const auto prepare = [&](Backend& backend, const std::string& words) {
    auto prepared = PrepareOne(backend);
    if (!prepared && result) result = std::unexpected(words + ": " + prepared.error());
  };
  const auto prepare_tokens = [&](const std::vector<SecretHeader>& secrets,
                                  const std::string& owner) {
    for (const SecretHeader& secret : secrets) {
      if (secret.token) prepare(secret.token->backend, owner + ".credentials");
    }
  };
  for (Backend& backend : policy.backends) {
    prepare(backend, "backends." + backend.name + ".tls");
    prepare_tokens(backend.secrets, "backends." + backend.name);
  }
  for (const Tool& tool : policy.tools) prepare_tokens(tool.secrets, "tools." + tool.name);
  if (auto& webhook = policy.flow_rules.webhook) prepare(webhook->backend, "flow_rules.webhook");
  std::erase_if(clients_, [](const auto& entry) { return entry.second.expired(); });
  return result;
}

bool TlsClients::Refresh(FileState::Look look) {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& [words, known] : clients_) {
    const auto client = known.lock();
    if (client == nullptr) continue;
    if (const auto changed = client->Refresh(look); !changed) {
      Log(LogLevel::kError, "a backend's TLS stays as it was: a changed file cannot be used",
          {{"reason", changed.error()}});
    } else if (*changed) {
      any = true;
      Log(LogLevel::kInfo, "a backend's certificates were read again", {{"name", client->name()}});
    }
  }
  return any;
}

void MakeTlsReady() { ::SSL_CTX_free(::SSL_CTX_new(::TLS_method())); }

}  // namespace recourse
