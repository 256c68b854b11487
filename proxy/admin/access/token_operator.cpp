#include "proxy/admin/access/token_operator.h"

#include <vector>

#include "proxy/base/crypto/jwt.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

std::expected<std::vector<std::string>, std::string> GroupsOf(const Json* value,
                                                              const std::string& claim) {
  std::vector<std::string> groups;
  if (value == nullptr || value->kind == Json::Kind::kNull) return groups;
  if (value->kind == Json::Kind::kString) {
    groups.push_back(value->text);
  } else if (value->kind != Json::Kind::kArray) {
    return std::unexpected("the token's " + claim + " is neither a text nor a list of texts");
  }
  for (const Json& item : value->items) {
    if (item.kind != Json::Kind::kString) {
      return std::unexpected("the token's " + claim + " holds something that is no text");
    }
    groups.push_back(item.text);
  }
  if (groups.size() > limits::kOperatorGroupsMax) {
    return std::unexpected("the token names more than 512 groups; let the issuer filter them");
  }
  // What the file cannot name gives nothing, and must not reach a log.
  std::erase_if(groups, [](const std::string& group) { return !IsOperatorName(group); });
  return groups;
}

}  // namespace

std::expected<Operator, std::string> OperatorOf(const Json& claims, const JwtRule& rule,
                                                WallTime now) {
  if (auto holds = JudgeClaims(claims, rule.issuer, rule.audience, now); !holds) {
    return std::unexpected(holds.error());
  }
  const Json* const name = ClaimOf(claims, rule.name_claim);
  if (name == nullptr || name->kind != Json::Kind::kString || !IsOperatorName(name->text) ||
      name->text == kSharedOperator) {
    return std::unexpected("the token's " + rule.name_claim +
                           " names nobody: 1 to 256 printable ASCII characters without quotes and "
                           "backslashes, and not 'admin'");
  }
  auto groups = GroupsOf(ClaimOf(claims, rule.groups_claim), rule.groups_claim);
  if (!groups) return std::unexpected(groups.error());
  return Operator{name->text, std::move(*groups), {}, Operator::How::kJwt};
}

}  // namespace recourse
