// Who a call comes from as far as it proves that: whose answer it may be shown, which tenant it is
// for, and what stands for its credentials where nothing else says which calls belong together.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/crypto/sha256.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// A keyed digest of a call's caller and credentials. A stored answer is shown to equal ones only.
using Principal = std::uint64_t;
// Of what Recourse sends by itself, and of operations that an earlier version began.
inline constexpr Principal kNoPrincipal = 0;

// What the policy adds to the fields of a principal, and takes away (`principal`). In lower case.
struct PrincipalRule {
  std::vector<std::string> with, without;
};

// As which words the names of fields are read: for what earlier versions began, as by those.
// kBefore: without the whole names that were added last; kEarlier: with words told apart at signs
// only, and fewer of them.
enum class FieldNames : std::uint8_t { kNow, kBefore, kEarlier };

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The field that names the session of a protocol, where it has sessions.
inline constexpr std::string_view kSessionField = "Mcp-Session-Id";

// A field that proves, or claims, who the call comes from: tokens, API keys, and those by which a
// service speaks for one of its users. Not the ones that differ with every request (DPoP).
bool IsPrincipalField(std::string_view name, FieldNames names = FieldNames::kNow);
// Whether the name is read alike as any of these words.
bool IsReadAlike(std::string_view name);
// A query parameter that does so, such as `api_key`.
bool IsPrincipalParameter(std::string_view name);
// A cookie that does so: not those against request forgery, for analytics or for stickiness.
bool IsPrincipalCookie(std::string_view name);
// A field that says for which tenant, account or project of the caller the call is made.
bool IsTenantField(std::string_view name, FieldNames names = FieldNames::kNow);

// Never kNoPrincipal. `query` is decoded. Of the field `verified`, whose token was verified, only
// issuer and subject count: a refreshed one is the same. Empty: there is none.
Principal PrincipalOf(const HmacKey& secret, const std::string& caller, const PrincipalRule& rule,
                      const Headers& headers, const Pairs& query, std::string_view verified = {},
                      FieldNames names = FieldNames::kNow);

// The tenant fields with their values, whatever order and case they came in; empty: none.
std::string TenantsOf(const Headers& headers, FieldNames names = FieldNames::kNow);

// What of the credentials stays when they are refreshed or signed anew: of SigV4 and HTTP
// signatures the key's id, of OAuth 1 consumer and token, of Basic the user, of a JWT issuer and
// subject; of all else the value. It is not verified: it tells calls apart and opens nothing. Not
// to be stored in clear. Empty: the call carries none.
std::string CredentialLabel(const PrincipalRule& rule, const Headers& headers, const Pairs& query,
                            FieldNames names = FieldNames::kNow);

// The names of what counts among the call's credentials: "header Authorization", "cookie sid",
// "query api_key". For people.
std::vector<std::string> PrincipalNames(const PrincipalRule& rule, const Headers& headers,
                                        const Pairs& query);

}  // namespace recourse
