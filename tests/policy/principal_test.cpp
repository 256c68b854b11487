#include "policy/model/principal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace recourse::principal_test {
namespace {

Principal Of(const Headers& headers, const Pairs& query = {}, const std::string& caller = "local") {
  return PrincipalOf(HmacKey("secret"), caller, {}, headers, query);
}

constexpr const char* kCredentials[] = {"Authorization",
                                        "X-Api-Key",
                                        "Api-Key",
                                        "ApiKey",
                                        "X-Auth-Token",
                                        "X-Access-Token",
                                        "X-Goog-Api-Key",
                                        "Ocp-Apim-Subscription-Key",
                                        "X-Functions-Key",
                                        "Private-Token",
                                        "X-Shopify-Access-Token",
                                        "X-Vault-Token",
                                        "X-Amz-Security-Token",
                                        "DD-API-KEY",
                                        "DD-APPLICATION-KEY",
                                        "X-User-Id",
                                        "X-Forwarded-User",
                                        "X-Forwarded-Email",
                                        "X-On-Behalf-Of",
                                        "Impersonate-User",
                                        "Impersonate-Uid",
                                        "Remote-User",
                                        "Sudo",
                                        "X-Ms-Client-Principal-Id",
                                        "Cf-Access-Jwt-Assertion",
                                        "X-Amzn-Oidc-Data",
                                        "X-Forwarded-Client-Cert",
                                        "X-Act-As",
                                        "Cookie",
                                        "X-Acme-Secret",
                                        "X-RapidAPI-Key",
                                        "X-UserId",
                                        "X-User-Uuid",
                                        "X-Session-Id",
                                        "Tailscale-User-Login",
                                        "X-WebAuth-User",
                                        "X-SSL-Client-S-DN",
                                        "X-SSL-Client-CN",
                                        "X-Switch-User",
                                        "X-Login",
                                        "X-Parse-Master-Key",
                                        "X-Forwarded-Preferred-Username",
                                        "X-Client-Id",
                                        "X-Key",
                                        "X-Identity",
                                        "X-Run-As",
                                        "X-Auth-Request-User",
                                        "X-Auth-Request-Email",
                                        "X-Agent-Token",
                                        "X-Consumer-Username",
                                        "X-Authenticated-Userid",
                                        "Signature-Input",
                                        "X-PAT",
                                        "X-MCP-Auth-Token",
                                        "MerchantKey",
                                        "merchantkey",
                                        "AccessKey",
                                        "X-AccessKey",
                                        "X-Bunq-Client-Authentication",
                                        "Authentication",
                                        "X-AuthToken",
                                        "AuthToken",
                                        "X-TrackerToken",
                                        "apiAccessKeyId",
                                        "apiSecretAccessKey",
                                        "SecretKey",
                                        "X-AppKey",
                                        "AppKey",
                                        "ClientSecret",
                                        "ClientId",
                                        "X-ClientId",
                                        "UserToken",
                                        "SessionKey",
                                        "XApiKey",
                                        "Grpc-Metadata-macaroon",
                                        "X-CleverTap-Passcode",
                                        "X-SSL-Client-DN",
                                        "X-Client-DN",
                                        "X-Consumer-ID",
                                        "X-Consumer-Custom-ID",
                                        "X-Uid",
                                        "X-UserEmail",
                                        "Dropbox-API-Select-Admin",
                                        "X-Hasura-Role",
                                        "X-Auth-Request-Token"};

constexpr const char* kOrdinary[] = {"DPoP",
                                     "X-Payment",
                                     "X-Amz-Date",
                                     "Idempotency-Key",
                                     "Recourse-Intent",
                                     "traceparent",
                                     "User-Agent",
                                     "X-CSRF-Token",
                                     "X-XSRF-Token",
                                     "Content-Type",
                                     "If-Match",
                                     "Date",
                                     "Host",
                                     "Accept",
                                     "X-Request-Id",
                                     "Stripe-Account",
                                     "X-Request-Token",
                                     "X-Retry-Token",
                                     "X-Client-Token",
                                     "X-Auth-Timestamp",
                                     "X-Auth-Nonce",
                                     "X-Recaptcha-Token",
                                     "X-Antiforgery-Token",
                                     "Sec-Fetch-User",
                                     "X-Stripe-Client-User-Agent",
                                     "Mcp-Session-Id",
                                     "Recourse-Session",
                                     "X-Goog-User-Project",
                                     "X-Stainless-Retry-Count",
                                     "X-CSRFToken",
                                     "XSRFToken",
                                     "RequestVerificationToken",
                                     "X-PageToken",
                                     "ClientToken",
                                     "IdempotencyKey",
                                     "CacheKey",
                                     "Cache-Key",
                                     "X-Monkey",
                                     "X-Token-Count",
                                     "X-TokenCount",
                                     "X-RateLimit-Limit",
                                     "X-RateLimit-Remaining",
                                     "X-Correlation-Id",
                                     "X-CorrelationId",
                                     "X-RequestId",
                                     "X-Client-Version",
                                     "X-Client-Name",
                                     "X-ClientName",
                                     "X-AppName",
                                     "X-AppId",
                                     "X-ApiVersion",
                                     "UserAgent",
                                     "Content-Encoding",
                                     "Content-Location",
                                     "Content-Disposition",
                                     "Accept-Language",
                                     "Accept-Version",
                                     "If-None-Match",
                                     "If-Unmodified-Since",
                                     "Prefer",
                                     "Range",
                                     "Origin",
                                     "Referer",
                                     "Sec-Fetch-Site",
                                     "Sec-CH-UA-Platform",
                                     "X-Requested-With",
                                     "X-B3-TraceId",
                                     "Anthropic-Version",
                                     "Notion-Version",
                                     "X-Idempotency-Token"};

TEST(PrincipalTest, WhateverProvesOrClaimsWhoIsThereCounts) {
  for (const char* name : kCredentials) {
    EXPECT_TRUE(IsPrincipalField(name)) << name;
    EXPECT_NE(Of({{name, "a=1"}}), Of({{name, "a=2"}})) << name;
    EXPECT_NE(Of({{name, "a=1"}}), Of({})) << name;
  }
  for (const char* name : {"api_key", "access_token", "sig", "X-Amz-Signature", "token"}) {
    EXPECT_NE(Of({}, {{name, "1"}}), Of({}, {{name, "2"}})) << name;
  }
  EXPECT_NE(Of({}, {}, "a"), Of({}, {}, "b"));
}

// Behind a gateway that has checked who is there, or of an agent that works for several people.
TEST(PrincipalTest, FieldsThatNameAPersonCount) {
  for (const char* name : {"X-Employee-Id",
                           "X-EmployeeNumber",
                           "X-Operator-Id",
                           "X-Operator",
                           "X-Requester",
                           "X-Requester-Id",
                           "X-Requestor-Email",
                           "X-Requested-By",
                           "X-Viewer-Id",
                           "X-Visitor-Id",
                           "X-Guest-Id",
                           "X-Person-Id",
                           "X-UPN",
                           "X-Patient-Id",
                           "OnBehalfOf",
                           "X-OnBehalfOf",
                           "X-On-Behalf",
                           "X-Acting-As",
                           "ActAs",
                           "X-Caller-Id",
                           "X-Caller",
                           "X-Agent-Email",
                           "X-Approver",
                           "X-Msisdn",
                           "X-Phone-Number",
                           "X-Forwarded-Groups",
                           "Remote-Groups",
                           "X-Group",
                           "X-Sub",
                           "X-UserInfo",
                           "X-Owner-Email",
                           "X-Contact-Email",
                           "X-Initiator",
                           "X-Invoked-By"}) {
    EXPECT_TRUE(IsPrincipalField(name)) << name;
  }
  for (const char* name :
       {"X-Requested-With", "X-Agent", "X-Agent-Id", "X-Agent-Version", "Sec-Fetch-Dest",
        "X-Profile", "Content-Profile", "X-Subscription-Plan", "X-RequestNumber", "X-Ownership"}) {
    EXPECT_FALSE(IsPrincipalField(name)) << name;
  }
}

TEST(PrincipalTest, WhatDiffersWithEveryRequestDoesNot) {
  for (const char* name : kOrdinary) {
    EXPECT_FALSE(IsPrincipalField(name)) << name;
    EXPECT_TRUE(!IsTenantField(name) || std::string(name) == "Stripe-Account" ||
                std::string(name) == "X-Goog-User-Project")
        << name;
  }
  EXPECT_EQ(Of({{"X-Request-Id", "1"}}), Of({{"X-Request-Id", "2"}}));
}

TEST(PrincipalTest, OfCookiesOnlyCredentialsCountInWhateverOrder) {
  const auto cookie = [](const char* value) { return Of({{"Cookie", value}}); };
  EXPECT_EQ(cookie("sid=1; _ga=GA1.2"), cookie("_ga=GA1.3; sid=1"));
  EXPECT_EQ(cookie("sid=1;csrftoken=x; AWSALB=y"), cookie("sid=1"));
  EXPECT_NE(cookie("sid=1"), cookie("sid=2"));
  EXPECT_EQ(cookie("a=1; b=2"), cookie("b=2; a=1"));
  EXPECT_NE(cookie("a=1; b=2"), cookie("a=1; b=2; c=3"));
  for (const char* name : {"_gatekeeper_session", "_garden_session", "_hjelp_session", "mp_session",
                           "serverid_login", "csrf_session", "awsalbauth", "ajs_user_id"}) {
    EXPECT_TRUE(IsPrincipalCookie(name)) << name;
  }
  EXPECT_EQ(Of({{"Cookie", "a=1"}, {"Cookie", "b=2"}}), cookie("b=2; a=1"));
  // Of two with one name servers take the first, or the last.
  EXPECT_NE(cookie("sid=1; sid=2"), cookie("sid=2; sid=1"));
  EXPECT_EQ(cookie("sid=2; a=0; sid=1; sid-x=3; t"), cookie("t; sid-x=3; sid=2; sid=1; a=0"));
}

TEST(PrincipalTest, TheOrderAndCaseOfFieldsDoNotMatter) {
  EXPECT_EQ(Of({{"authorization", "Bearer a"}, {"X-API-KEY", "k"}}),
            Of({{"x-api-key", "k"}, {"Authorization", "Bearer a"}}));
  EXPECT_EQ(Of({{"Authorization", "bearer  a"}}), Of({{"Authorization", "Bearer a"}}));
  EXPECT_NE(Of({{"X-User-Id", "a"}, {"X-User-Id", "b"}}),
            Of({{"X-User-Id", "b"}, {"X-User-Id", "a"}}));
  // Two fields are not one with both values, and a value never moves to another field.
  EXPECT_NE(Of({{"X-Api-Key", "a"}, {"X-Api-Key", "b"}}), Of({{"X-Api-Key", "ab"}}));
  EXPECT_NE(Of({{"X-Api-Key", "a"}}), Of({{"X-Auth-Token", "a"}}));
}

TEST(PrincipalTest, ThePolicyAddsFieldsAndTakesThemAway) {
  const PrincipalRule rule{.with = {"x-acme"}, .without = {"x-device-token", "cookie"}};
  const auto of = [&](const Headers& headers) {
    return PrincipalOf(HmacKey("secret"), "local", rule, headers, {});
  };
  EXPECT_NE(of({{"X-Acme", "1"}}), of({{"X-Acme", "2"}}));
  EXPECT_EQ(of({{"X-Device-Token", "1"}}), of({{"X-Device-Token", "2"}}));
  EXPECT_EQ(of({{"Cookie", "sid=1"}}), of({{"Cookie", "sid=2"}}));
  EXPECT_NE(of({{"Authorization", "1"}}), of({{"Authorization", "2"}}));
  EXPECT_EQ(PrincipalNames(rule, {{"X-Acme", "1"}, {"X-Device-Token", "2"}}, {}),
            std::vector<std::string>{"header X-Acme"});
}

TEST(PrincipalTest, TenantsAreKnownByTheirFields) {
  for (const char* name : {"Stripe-Account",
                           "Stripe-Context",
                           "X-Tenant-Id",
                           "X-Org-Id",
                           "OpenAI-Organization",
                           "OpenAI-Project",
                           "Xero-Tenant-Id",
                           "X-Goog-User-Project",
                           "X-Vault-Namespace",
                           "X-Workspace",
                           "MerchantId",
                           "OrgId",
                           "X-OrgId",
                           "OrganizationId",
                           "X-OrganizationId",
                           "WorkspaceId",
                           "ProjectId",
                           "AccountId",
                           "X-AccountId",
                           "CompanyId",
                           "X-TenantId",
                           "intuit-realmid",
                           "X-Zuora-Entity-Ids",
                           "LocationId",
                           "X-Entity-Id",
                           "X-Business-Id",
                           "X-Subdomain",
                           "X-Application-Id",
                           "X-Algolia-Application-Id",
                           "X-Domain-Id",
                           "Content-Profile",
                           "X-ClickHouse-Database",
                           "X-Trino-Schema",
                           "DomainId",
                           "fiware-service",
                           "Fiware-ServicePath",
                           "Dropbox-API-Path-Root"}) {
    EXPECT_TRUE(IsTenantField(name)) << name;
    EXPECT_NE(TenantsOf({{name, "1"}}), TenantsOf({{name, "2"}})) << name;
  }
  EXPECT_EQ(TenantsOf({{"Authorization", "Bearer x"}, {"Content-Type", "text/plain"}}), "");
  for (const char* name : {"X-Region", "X-Domain", "X-Application", "X-Group-Id"}) {
    EXPECT_FALSE(IsTenantField(name)) << name;
  }
}

TEST(PrincipalTest, EarlierVersionsReadTheWordsBetweenSigns) {
  for (const char* name : {"MerchantKey", "X-Uid", "X-Auth-Request-Token", "X-Select-Admin",
                           "X-JFrog-Art-Api", "X-ApiKeys"}) {
    EXPECT_TRUE(IsPrincipalField(name)) << name;
    EXPECT_FALSE(IsPrincipalField(name, FieldNames::kEarlier)) << name;
  }
  for (const char* name : {"X-Api-Key", "X-Token-Count", "X-Client-Id"}) {
    EXPECT_TRUE(IsPrincipalField(name, FieldNames::kEarlier)) << name;
  }
  EXPECT_EQ(TenantsOf({{"MerchantId", "1"}, {"X-Entity-Id", "1"}}, FieldNames::kEarlier), "");
  EXPECT_EQ(
      TenantsOf({{"fiware-service", "1"}, {"Dropbox-API-Path-Root", "1"}}, FieldNames::kEarlier),
      "");
  EXPECT_NE(TenantsOf({{"X-Tenant-Id", "1"}}, FieldNames::kEarlier), "");
}

TEST(PrincipalTest, NamesThatEarlierVersionsReadOtherwiseAreToldApart) {
  for (const char* name : {"MerchantId", "X-Entity-Id", "fiware-service"}) {
    EXPECT_FALSE(IsReadAlike(name)) << name;
  }
  for (const char* name : {"Authorization", "X-Tenant-Id", "Content-Type"}) {
    EXPECT_TRUE(IsReadAlike(name)) << name;
  }
}

// They dropped a proxy's words before any of these was asked.
TEST(PrincipalTest, EarlierVersionsNeverSawAProxysWords) {
  const PrincipalRule rule{.with = {"x-forwarded-acme", "x-acme"}, .without = {}};
  const auto label = [&](const char* field, FieldNames names) {
    return CredentialLabel(rule, {{field, "1"}}, {}, names);
  };
  for (const char* const name : {"X-Forwarded-User", "X-Forwarded-Acme"}) {
    EXPECT_NE(label(name, FieldNames::kNow), "") << name;
    EXPECT_EQ(label(name, FieldNames::kBefore), "") << name;
    EXPECT_EQ(label(name, FieldNames::kEarlier), "") << name;
    EXPECT_FALSE(IsReadAlike(name)) << name;
  }
  EXPECT_NE(label("X-Acme", FieldNames::kEarlier), "");
  EXPECT_EQ(TenantsOf({{"X-Forwarded-Tenant", "1"}}, FieldNames::kBefore), "");
  EXPECT_NE(TenantsOf({{"X-Forwarded-Tenant", "1"}}), "");
}

TEST(PrincipalTest, ALabelOutlivesSignatureAndRefresh) {
  const auto label = [](const std::string& value) {
    return CredentialLabel({}, {{"Authorization", value}}, {});
  };
  EXPECT_EQ(label("AWS4-HMAC-SHA256 Credential=AKID/2026/x, SignedHeaders=a, Signature=1"),
            label("AWS4-HMAC-SHA256 Credential=AKID/2027/y, SignedHeaders=a, Signature=2"));
  EXPECT_NE(label("AWS4-HMAC-SHA256 Credential=AKID/1, Signature=1"),
            label("AWS4-HMAC-SHA256 Credential=OTHER/1, Signature=1"));
  EXPECT_EQ(label("Signature keyId=\"k1\",signature=\"a\""),
            label("Signature keyId=\"k1\",signature=\"b\""));
  EXPECT_EQ(label("OAuth oauth_consumer_key=\"c\", oauth_token=\"t\", oauth_nonce=\"1\""),
            label("OAuth oauth_consumer_key=\"c\", oauth_token=\"t\", oauth_nonce=\"2\""));
  EXPECT_EQ(label("Basic YW5uOm9uZQ=="), label("Basic YW5uOnR3bw=="));  // ann:one, ann:two
  EXPECT_NE(label("Basic YW5uOm9uZQ=="), label("Basic Ym9iOm9uZQ=="));
  // {"iss":"i","sub":"ann","exp":1} and ...2, {"iss":"i","sub":"bob"}
  EXPECT_EQ(label("Bearer e30.eyJpc3MiOiJpIiwic3ViIjoiYW5uIiwiZXhwIjoxfQ.s1"),
            label("Bearer e30.eyJpc3MiOiJpIiwic3ViIjoiYW5uIiwiZXhwIjoyfQ.s2"));
  EXPECT_NE(label("Bearer e30.eyJpc3MiOiJpIiwic3ViIjoiYW5uIiwiZXhwIjoxfQ.s1"),
            label("Bearer e30.eyJpc3MiOiJpIiwic3ViIjoiYm9iIn0.s1"));
  EXPECT_NE(label("Bearer opaque-1"), label("Bearer opaque-2"));
  EXPECT_EQ(CredentialLabel({}, {{"Accept", "*/*"}}, {}), "");
}

TEST(PrincipalTest, AParameterIsACredentialByItsWords) {
  for (const char* const name : {"api_key",
                                 "apikey",
                                 "key",
                                 "access_token",
                                 "token",
                                 "sig",
                                 "X-Amz-Security-Token",
                                 "api_token",
                                 "apitoken",
                                 "access_key",
                                 "client_secret",
                                 "clientSecret",
                                 "hapikey",
                                 "jwt",
                                 "session",
                                 "password",
                                 "x-api-key",
                                 "subscription-key",
                                 "AWSAccessKeyId",
                                 "app_key",
                                 "auth_key",
                                 "secret",
                                 "sid",
                                 "user_key",
                                 "accessToken",
                                 "authorization",
                                 "api_secret"}) {
    EXPECT_TRUE(IsPrincipalParameter(name)) << name;
  }
  // Arguments, whoever they name, and what differs between attempts.
  for (const char* const name :
       {"user", "user_id", "email", "owner", "group", "role", "page_token", "client_token",
        "csrf_token", "continuation-token", "partition_key", "sort_key", "keys", "monkey",
        "dry_run", "status", "public_key"}) {
    EXPECT_FALSE(IsPrincipalParameter(name)) << name;
  }
}

TEST(PrincipalTest, OfAForwardedTokenAndCertificateWhatIsNotRenewedTellsClientsApart) {
  const auto label = [](const char* name, const std::string& value) {
    return CredentialLabel({}, {{name, value}}, {});
  };
  constexpr const char* kToken = "X-Forwarded-Access-Token";
  EXPECT_EQ(label(kToken, "e30.eyJpc3MiOiJpIiwic3ViIjoiYW5uIiwiZXhwIjoxfQ.s1"),
            label(kToken, "e30.eyJpc3MiOiJpIiwic3ViIjoiYW5uIiwiZXhwIjoyfQ.s2"));
  EXPECT_NE(label(kToken, "e30.eyJpc3MiOiJpIiwic3ViIjoiYW5uIiwiZXhwIjoxfQ.s1"),
            label(kToken, "e30.eyJpc3MiOiJpIiwic3ViIjoiYm9iIn0.s1"));
  EXPECT_NE(label(kToken, "opaque-1"), label(kToken, "opaque-2"));

  constexpr const char* kCert = "X-Forwarded-Client-Cert";
  const std::string ann =
      R"(By=spiffe://a/proxy;Hash=01;Cert="x%3B";Subject="/C=US;O=A,CN=ann\"";)";
  const auto renewed = [&] {
    std::string later = ann;
    return later.replace(later.find("01"), 2, "02").replace(later.find("x%3B"), 4, "yy");
  }();
  EXPECT_EQ(label(kCert, ann), label(kCert, renewed));
  EXPECT_EQ(Of({{kCert, ann}}), Of({{kCert, renewed}}));
  for (const char* const other :
       {R"(By=spiffe://a/proxy;Hash=01;Subject="/C=US;O=A,CN=bob")",
        R"(By=spiffe://a/proxy;Hash=01;URI=spiffe://a/ann,By=spiffe://a/other;URI=spiffe://a/x)",
        R"(By=spiffe://a/proxy;Hash=01;URI=spiffe://a/ann;By=spiffe://a/other;URI=spiffe://a/x)"}) {
    EXPECT_NE(Of({{kCert, ann}}), Of({{kCert, other}})) << other;
  }
  EXPECT_NE(label(kCert, "By=spiffe://a/proxy;Hash=01;Subject=\"\""),
            label(kCert, "By=spiffe://a/proxy;Hash=02;Subject=\"\""))
      << "nothing else tells them apart";
  const auto through = [&](const std::string& client) {
    return label(kCert, client + ",By=spiffe://a/edge;Hash=07;URI=spiffe://a/gateway");
  };
  EXPECT_NE(through("Hash=01"), through("Hash=02")) << "whatever stands between";
  EXPECT_EQ(through(ann), through(renewed));
  const std::string two = "By=spiffe://a/proxy;Hash=01;URI=spiffe://a/ann";
  const std::string other = "By=spiffe://a/other;URI=spiffe://a/x";
  EXPECT_NE(label(kCert, two + ',' + other), label(kCert, two + ';' + other));
}

}  // namespace
}  // namespace recourse::principal_test
