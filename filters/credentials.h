// Credentials that the policy names by mounted files, read when a request is sent.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "policy/policy.h"
#include "proxy/base/error.h"
#include "proxy/base/http_message.h"

namespace recourse {

// Reads a mounted secret, without the newline at its end. Fails with a static reason.
using ReadSecret = std::function<Result<std::string>(const std::string& file)>;

// Sets the fields. Fails with a static reason when one cannot be read or is no field value.
Result<void> AddSecrets(const std::vector<SecretHeader>& secrets, const ReadSecret& read_secret,
                        Headers& headers);

}  // namespace recourse
