// Whom an issuer's token stands for. Pure.
#pragma once

#include <expected>
#include <string>

#include "proxy/admin/access/operator_directory.h"
#include "proxy/base/clock.h"
#include "proxy/base/json/json.h"

namespace recourse {

// Who a token with a good signature names, without roles: JudgeClaims, then the claims of the rule.
// Errors are sentences for whoever sent the token, without any part of it.
std::expected<Operator, std::string> OperatorOf(const Json& claims, const JwtRule& rule,
                                                WallTime now);

}  // namespace recourse
