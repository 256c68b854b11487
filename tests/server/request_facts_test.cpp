#include "proxy/exchange/request_facts.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "proxy/base/http/field_reach.h"
#include "tests/policy/policy_builder.h"

namespace recourse::request_facts_test {
namespace {

// Every name that the reader of heads tells apart.
constexpr const char* kKnown[] = {"authorization",
                                  "baggage",
                                  "connection",
                                  "content-encoding",
                                  "content-length",
                                  "content-type",
                                  "cookie",
                                  "date",
                                  "expect",
                                  "forwarded",
                                  "host",
                                  "http2-settings",
                                  "idempotency-key",
                                  "idempotent-replayed",
                                  "keep-alive",
                                  "max-forwards",
                                  "path-info",
                                  "proxy-authenticate",
                                  "proxy-authorization",
                                  "proxy-connection",
                                  "recourse-event",
                                  "recourse-flow",
                                  "recourse-intent",
                                  "recourse-session",
                                  "set-cookie",
                                  "te",
                                  "traceparent",
                                  "tracestate",
                                  "trailer",
                                  "transfer-encoding",
                                  "upgrade",
                                  "via",
                                  "x-accel-redirect",
                                  "x-forwarded-for",
                                  "x-forwarded-user",
                                  "x-http-method",
                                  "x-real-ip"};

std::string ValueOf(const std::string& name) {
  if (name == "content-length") return "0";
  if (name == "transfer-encoding") return "chunked";
  if (name == "expect") return "100-continue";
  if (name == "connection") return "keep-alive";
  return name == "host" ? "shop" : "1";
}

bool Reaches(const std::string& name, const Policy& policy) {
  std::string bytes = "POST / HTTP/1.1\r\n";
  if (name != "host") bytes += "Host: shop\r\n";
  bytes += name + ": " + ValueOf(name) + "\r\n\r\n";
  const auto head = std::make_unique<Head>();
  EXPECT_EQ(ParseRequestHead(bytes, *head).state, ParseState::kComplete) << name;
  return FindHeader(EndToEndFields(*head, policy.fields_read), name) != nullptr;
}

TEST(RequestFactsTest, ThePolicySeesWhatItsLanguageSaysThatItSees) {
  std::set<FieldId> met;
  for (const std::string name : kKnown) {
    met.insert(FieldIdOf(name));
    Policy naming;
    naming.fields_read = {name};
    EXPECT_EQ(Reaches(name, naming), ReachOf(name) != FieldReach::kNowhere) << name;
    EXPECT_EQ(FieldIdOf(name) == FieldId::kForwarded, ReachOf(name) == FieldReach::kPolicy) << name;
  }
  EXPECT_EQ(met.size(), static_cast<std::size_t>(FieldId::kCookie));
  EXPECT_EQ(ReachOf("X-FORWARDED-X"), FieldReach::kPolicy);
  for (const char* const name : {"x-forwarded-", "recourse-", "forwarded-for", "x-a", ""}) {
    EXPECT_EQ(ReachOf(name), FieldReach::kBackend) << name;
  }
}

// A proxy's word on the rest of the way tells no two callers apart, and changes with every one.
TEST(RequestFactsTest, OfAProxysWordsThoseThatNameAPersonAreSeenUnasked) {
  for (const std::string name :
       {"X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Preferred-Username",
        "X-Forwarded-Groups", "X-Forwarded-Access-Token", "X-Forwarded-Tenant"}) {
    EXPECT_TRUE(Reaches(name, Policy())) << name;
  }
  for (const std::string name :
       {"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
        "X-Forwarded-Server", "X-Forwarded-Prefix", "X-Forwarded-Path", "X-Forwarded-Uri",
        "X-Forwarded-Method", "X-Forwarded-Scheme", "X-Forwarded-Ssl", "X-Forwarded-By",
        "X-Real-IP", "Forwarded"}) {
    EXPECT_FALSE(Reaches(name, Policy())) << name;
  }
}

}  // namespace
}  // namespace recourse::request_facts_test
