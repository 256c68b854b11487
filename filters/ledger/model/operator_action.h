// What an operator ordered that moves no operation and no flow, so that no other row tells of it.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/crypto/hash.h"

namespace recourse {

// After a restore: what came before it may lack what was done since the backup.
inline constexpr std::string_view kAcceptOrder = "ledger.accept";
// What a dead process had open goes on at another one, whose pod gives the order.
inline constexpr std::string_view kTakeoverOrder = "ledger.takeover";

struct OperatorOrder {
  std::string what;            // "ledger.accept", "drain", ...; openapi.json has all
  std::string who;             // the operator's name; "admin" with the shared token
  std::string reason;          // in their words; may be empty
  std::string policy_version;  // in force then
  Digest policy{};             // its digest

  friend bool operator==(const OperatorOrder&, const OperatorOrder&) = default;
};

}  // namespace recourse
