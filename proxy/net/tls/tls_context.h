// What TLS towards backends and on the listener have in common.
#pragma once

#include <openssl/ssl.h>

#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "proxy/base/crypto/hash.h"

namespace recourse {

struct SslContextFree {
  void operator()(SSL_CTX* context) const;
};
using SslContextPtr = std::unique_ptr<SSL_CTX, SslContextFree>;

// Files whose use has to follow their change. One thread at a time.
class FileState {
 public:
  // Their present bytes count as used. Empty paths are left out.
  explicit FileState(std::vector<std::string> paths);

  enum class Look : std::uint8_t {
    kSettled,  // only what two looks in a row have seen: files that belong together change in turn
    kAtOnce,
  };
  // Whether the bytes are others than those last used; they count as used from then on. Blocking.
  bool HasChanged(Look look);

 private:
  Digest Read() const;

  const std::vector<std::string> paths_;
  Digest used_;
  Digest seen_;
};

// TLS 1.2 or newer, no renegotiation, no compression, no early data; buffers only while in use.
// Null when out of memory.
SslContextPtr NewTlsContext(const SSL_METHOD* method);

// Our own certificate with its chain, and its key, both PEM. Fails with a sentence that names the
// file.
std::expected<void, std::string> ReadOwnCertificate(SSL_CTX* context, const std::string& chain,
                                                    const std::string& key);

// The CA certificates to trust. Fails with a sentence that names the file.
std::expected<void, std::string> ReadTrusted(SSL_CTX* context, const std::string& ca_file);

// HTTP/1.1 as ALPN writes it; nothing else is spoken.
inline constexpr unsigned char kAlpnHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

}  // namespace recourse
