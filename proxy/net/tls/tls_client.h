// TLS towards one backend: what is trusted, who we are there, and the sessions to resume.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/net/tls/tls_context.h"
#include "proxy/net/tls/tls_stream.h"

namespace recourse {

struct SslSessionFree {
  void operator()(SSL_SESSION* session) const;
};
using SslSessionPtr = std::unique_ptr<SSL_SESSION, SslSessionFree>;

// One backend's; shared by all policies that say the same of it, and by all threads.
class TlsClient {
 public:
  // Reads the backend's files. The certificate of the server is verified against tls.ca_file or the
  // system's trust store and against tls.server_name or the url's host; TLS 1.2 or newer; HTTP/1.1.
  // Fails with a sentence that names the file.
  static std::expected<std::shared_ptr<TlsClient>, std::string> Make(const Backend& backend);

  // A client on a connected, non-blocking socket, before its handshake. Null when out of memory.
  std::unique_ptr<TlsStream> NewStream(int socket, WallTime now);
  // Whether the stream was made here, and with the files as they were last read.
  bool Made(const TlsStream& stream) const { return stream.context() == present_; }
  const std::string& name() const { return name_; }
  // After the handshake: the server chose HTTP/1.1, or nothing.
  static bool SpeaksHttp11(const TlsStream& stream);

  // Reads the files again when they have changed; false: they have not. New connections use what
  // was read, and resume nothing older. Fails as Make, and changes nothing then. One thread at a
  // time.
  std::expected<bool, std::string> Refresh(FileState::Look look);

 private:
  // What one reading of the files gave. Streams keep it alive.
  struct Reading {
    SslContextPtr context;
    std::mutex mutex;
    std::vector<SslSessionPtr> sessions;  // newest last, at most kTlsSessionsPerBackendMax
  };
  explicit TlsClient(const Backend& backend);
  std::expected<std::shared_ptr<Reading>, std::string> Read() const;
  void Use(std::shared_ptr<Reading> reading);
  static int KeepSession(SSL* ssl, SSL_SESSION* session);
  static void Resume(Reading& reading, SSL* ssl, WallTime now);

  const std::string ca_file_, certificate_, key_;
  const std::string name_;  // that the certificate must have
  const bool is_address_;
  FileState files_;
  std::mutex mutex_;                            // taken once per connection, never per request
  std::shared_ptr<Reading> reading_;            // guarded by mutex_
  std::atomic<const void*> present_ = nullptr;  // reading_, to compare with
};

// Every TlsClient of the process.
class TlsClients {
 public:
  // Gives every https backend, and the webhook, its TlsClient, where need be one that reads its
  // files now. Call
  // before the policy is used. Fails with a sentence that names the first backend whose files
  // cannot be used; the others have theirs.
  std::expected<void, std::string> Prepare(Policy& policy);
  // Reads again what has changed, and says whether anything has; the log tells of that, as well as
  // of what cannot be used.
  bool Refresh(FileState::Look look);

 private:
  std::expected<void, std::string> PrepareOne(Backend& backend);  // with mutex_ taken

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<TlsClient>> clients_;  // guarded by mutex_; by their words
};

// Makes now what OpenSSL makes at its first use: processes that are forked later have it.
void MakeTlsReady();

}  // namespace recourse
