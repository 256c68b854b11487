#include "filters/credentials.h"

namespace recourse {

Result<void> AddSecrets(const std::vector<SecretHeader>& secrets, const ReadSecret& read_secret,
                        Headers& headers) {
  for (const SecretHeader& secret : secrets) {
    auto value = read_secret(secret.file);
    if (!value) return std::unexpected(value.error());
    if (!IsFieldValue(*value)) {
      return std::unexpected(Error(ErrorCode::kInternal,
                                   "a secret of the undo request has control characters",
                                   Delivery::kNotSent));
    }
    SetHeader(headers, secret.name, secret.prefix + *value);
  }
  return {};
}

}  // namespace recourse
