#include "filters/call/credentials.h"

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

}  // namespace recourse
