// Credentials that the policy names by mounted files, read when a request is sent.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <vector>

#include "filters/credentials/echo_scrubber.h"
#include "policy/model/policy.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// Reads a mounted secret, without the newline at its end. Fails with a line for operators, which
// names the file.
using ReadSecret = std::function<std::expected<std::string, std::string>(const std::string& file)>;

// Sets the fields. Fails with a line for operators when one cannot be read or is no field value.
std::expected<void, std::string> AddSecrets(const std::vector<SecretHeader>& secrets,
                                            const ReadSecret& read_secret, Headers& headers);

// Those of a backend, and what takes their values out of its answer.
struct ReadCredentials {
  Headers fields;
  EchoScrubber scrubber;
};

// Whether a field of that name is one that `credentials` set, in whatever spelling: the backend's,
// or those of the tool, which may be null.
bool IsOwnCredential(const Backend& backend, const Tool* tool, std::string_view name);

// Whether a field of a request asks for an answer in another charset than UTF-8, in which nobody
// finds a credential.
bool AsksForCharset(std::string_view name, std::string_view value);

}  // namespace recourse
