// The operators file: who there is, by which credential they are known, and what they may do.
#pragma once

#include <array>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/language/loader.h"
#include "policy/model/policy.h"
#include "proxy/admin/access/operator.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

class KeySource;

// How tokens of an issuer (OIDC) are read.
struct JwtRule {
  std::string issuer, audience;
  std::string name_claim = "sub";  // a member's name, or a JSON pointer when it begins with '/'
  std::string groups_claim = "groups";
  std::string jwks_file;                // else jwks_url
  std::string jwks_url, jwks_ca_file;   // https; CA: empty means the system's trust store
  std::optional<Backend> jwks_backend;  // where jwks_url leads
};

// Constant once it is used.
struct OperatorDirectory {
  struct Token {
    std::string name;
    Digest sha256{};
    std::vector<std::string> groups;
    Roles roles;  // besides those of the groups
  };
  std::vector<Token> tokens;
  std::optional<JwtRule> jwt;
  std::shared_ptr<KeySource> jwt_keys;  // set where `jwt` is
  // Client certificates, by the name that tls_identity.h gives them.
  std::map<std::string, std::vector<std::string>, std::less<>> certificates;
  std::array<std::vector<std::string>, kRoleNames.size()> groups_of_role;

  // Whether somebody is in a group of that name, or may be.
  bool NamesGroup(std::string_view name) const;
  // The roles that membership in `groups` gives.
  Roles RolesOf(const std::vector<std::string>& groups) const;
  // The one whose token has this digest. Takes the same time for every digest of the same book.
  std::optional<Operator> FindToken(const Digest& sha256) const;
  // The one with this certificate, who may be in no group and then have no role.
  Operator OfCertificate(const std::string& name) const;
};

struct LoadedOperators {
  std::shared_ptr<OperatorDirectory> book;  // null when there is an error
  std::vector<PolicyProblem> problems;  // as those of a policy: FILE:line:column, key, what and why
  bool ok() const { return book != nullptr; }
};

// Gives the text of a file that the operators file names, or why it cannot be read.
using ReadNamedFile = std::function<std::expected<std::string, std::string>(const std::string&)>;

// `file` stands for the file in messages. With a jwks_url, `jwt_keys` is left to the caller.
LoadedOperators LoadOperatorsText(const std::string& file, const std::string& yaml,
                                  const ReadNamedFile& read);

// A name or group that can be written into a log, a header and the ledger as it is: printable ASCII
// without quotes and backslashes, 1 to kOperatorNameBytesMax.
bool IsOperatorName(std::string_view name);

// SHA-256 of a bearer token, as the file has it.
inline Digest TokenDigest(std::string_view token) { return Sha256(token); }

}  // namespace recourse
