#include "proxy/admin/access/jwks_fetch.h"

#include "proxy/base/limits.h"
#include "proxy/net/beast/http_client.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {

UrlKeys::Fetch JwksFetch(const Backend& backend) {
  return [backend]() -> std::expected<std::string, std::string> {
    auto tls = TlsClient::Make(backend);  // each time: the CA file may have changed
    if (!tls) return std::unexpected(tls.error());
    const HttpPlace place{.host = backend.host,
                          .port = std::to_string(backend.port),
                          .tls = std::move(*tls),
                          .body_bytes_max = limits::kJwksBytesMax,
                          .total = limits::kJwksTimeout};
    constexpr int kSeconds = static_cast<int>(limits::kJwksTimeout.count() / 1000);
    auto answer = Fetch(place, {"GET", backend.base_path.empty() ? "/" : backend.base_path, {}, {}},
                        kSeconds);
    if (!answer) return std::unexpected(answer.error());
    if (answer->status == 200) return std::move(answer->body);
    return std::unexpected("the answer is " + std::to_string(answer->status) + ", not 200");
  };
}

}  // namespace recourse
