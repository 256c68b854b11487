// What tells the agents behind one certificate, or without one, apart (`callers`).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/files/jwks_file.h"
#include "proxy/base/clock.h"

namespace recourse {

// A signed token of an issuer (OIDC), one claim of which names the caller.
struct CallerToken {
  std::string field = "Authorization";  // there with the scheme Bearer, elsewhere with or without
  std::string issuer, audience;
  std::string claim = "sub";  // a member's name, or a JSON pointer when it begins with '/'
  std::string jwks_file;
  std::shared_ptr<JwksFile> keys;  // read before the policy is run; null: it never is
};

struct CallersRule {
  std::string field;  // its value names the caller, and is believed; empty: none
  std::optional<CallerToken> jwt;

  bool names_any() const { return !field.empty() || jwt.has_value(); }
};

// As whom the calls of one connection come before `callers` says more.
struct CallerIdentity {
  std::string name = "local";
  // A certificate's stands in each name. That of a group, whose ledger other workloads share, does
  // where nothing is verified: what is believed tells callers of one workload apart.
  enum class Of : std::uint8_t { kAnybody, kGroup, kCertificate } of = Of::kAnybody;
};

// Who makes a call. A certificate's name stays what it is; what `callers` names stands before it,
// so that no certificate can have such a name: "jwt:alice;field:planner;cn:pod".
struct Caller {
  std::string name;            // visible ASCII without quotes and backslashes, but for certificates
  std::string problem;         // set: what `callers` names is not there or does not hold
  std::string verified_field;  // whose token was verified; empty: none
  // As which the call would have come under fewer words of `callers`.
  struct Earlier {
    std::string name;
    bool has_token = false;  // the token was verified then, too
  };
  std::vector<Earlier> earlier{};
};

// Whether both name a call's caller by the same.
bool NameAlike(const CallersRule& a, const CallersRule& b);

// The values of the call's fields of that name, in any case of letters.
using FieldValues = std::function<std::vector<std::string_view>(std::string_view name)>;

// Without a caller the name is one that no caller has, and says nothing of what came. Pure, but for
// the keys.
Caller ReadCaller(const CallersRule& rule, const CallerIdentity& identity,
                  const FieldValues& values, WallTime now);

// Whether people read both as one name: in any case of letters, with blanks around it, with a dot
// behind it.
bool AreOneName(std::string_view a, std::string_view b);
// Whether that person or program is among those who make up the caller, also where a field alone
// says so: nobody approves what comes in their own name.
bool IsPartOfCaller(std::string_view who, std::string_view caller);

}  // namespace recourse
