// Who stands before the admin port, and what they may do there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace recourse {

class Json;

// Each is given apart from the others: who repairs need not be one who approves.
enum class Role : std::uint8_t {
  kRead,     // events, flows, reports, the policy
  kApprove,  // decides approvals
  kRepair,   // moves flows, the ledger and the process
  kSettle,   // says what became of operations, and no more: a receiver of webhooks
};
inline constexpr std::array<std::pair<std::string_view, Role>, 4> kRoleNames = {{
    {"read", Role::kRead},
    {"approve", Role::kApprove},
    {"repair", Role::kRepair},
    {"settle", Role::kSettle},
}};
inline std::string_view NameOf(Role role) {
  return kRoleNames[static_cast<std::size_t>(role)].first;
}

class Roles {
 public:
  bool Has(Role role) const { return (bits_ & BitOf(role)) != 0; }
  void Add(Role role) { bits_ = static_cast<std::uint8_t>(bits_ | BitOf(role)); }
  bool operator==(const Roles&) const = default;

 private:
  static unsigned BitOf(Role role) { return 1U << static_cast<unsigned>(role); }
  std::uint8_t bits_ = 0;
};

// One who was authenticated. `name` is printable ASCII, at most kOperatorNameBytesMax.
struct Operator {
  enum class How : std::uint8_t { kAdminToken, kToken, kJwt, kCertificate };

  std::string name;
  std::vector<std::string> groups;
  Roles roles;
  How how = How::kToken;
  // What else the credential calls them: the certificate that came beside it, and, of a token, its
  // claims. `name_claim` is the one that an issuer's tokens name operators by; empty: none.
  std::string certificate{};
  std::shared_ptr<const Json> claims{};
  std::string name_claim{};
  bool is_group_name = false;  // `name` is a group's: nobody is asked by it

  // The token of --admin-token-file names nobody: several people may hold it.
  bool is_shared() const { return how == How::kAdminToken; }
  bool IsIn(std::string_view group) const {
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  }
};
inline constexpr std::string_view kSharedOperator = "admin";

inline std::string_view NameOf(Operator::How how) {
  static constexpr std::string_view kNames[] = {"admin-token", "token", "jwt", "certificate"};
  return kNames[static_cast<std::size_t>(how)];
}

}  // namespace recourse
