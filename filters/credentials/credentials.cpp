#include "filters/credentials/credentials.h"

#include <algorithm>
#include <utility>

#include "policy/model/method_override.h"

namespace recourse {
namespace {

// As CGI and its heirs have it: X_Api_Key is X-Api-Key to them.
std::string AsVariable(std::string_view name) {
  std::string plain = ToLower(name);
  std::ranges::replace(plain, '-', '_');
  return plain;
}

}  // namespace

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
  if (backend.secrets.empty() && (tool == nullptr || tool->secrets.empty())) return false;
  const std::string plain = AsVariable(name);
  const auto has_name = [&plain](const SecretHeader& secret) {
    return AsVariable(secret.name) == plain;
  };
  return std::ranges::any_of(backend.secrets, has_name) ||
         (tool != nullptr && std::ranges::any_of(tool->secrets, has_name));
}

bool AsksForCharset(std::string_view name, std::string_view value) {
  return EqualsIgnoreCase(name, "Accept-Charset") ||
         (EqualsIgnoreCase(name, "Accept") && !IsUtf8Form(value));
}

}  // namespace recourse
