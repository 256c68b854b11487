#include "filters/credentials/credentials.h"

#include <algorithm>
#include <utility>

namespace recourse {
std::expected<void, std::string> AddSecrets(const std::vector<SecretHeader>& secrets,
                                            const ReadSecret& read_secret, Headers& headers) {
  for (const SecretHeader& secret : secrets) {
    const auto value = read_secret(secret.file);
    if (!value) return std::unexpected("its credential " + secret.name + ": " + value.error());
    if (!IsFieldValue(*value)) {
      return std::unexpected("its credential " + secret.name + ": " + secret.file +
                             " has control characters");
    }
    SetHeader(headers, secret.name, secret.prefix + *value);
  }
  return {};
}

bool IsOwnCredential(const Backend& backend, const Tool* tool, std::string_view name) {
  const auto has_name = [name](const SecretHeader& secret) {
    return EqualsIgnoreCase(secret.name, name);
  };
  return std::ranges::any_of(backend.secrets, has_name) ||
         (tool != nullptr && std::ranges::any_of(tool->secrets, has_name));
}

}  // namespace recourse
