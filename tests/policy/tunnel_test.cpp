// The word `tunnels`, and what becomes of a CONNECT under it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/explain/explain.h"
#include "policy/model/intercepted_hosts.h"
#include "policy/model/tunnel_decision.h"
#include "tests/policy/policy_builder.h"

namespace recourse::tunnel_test {
namespace {

using Act = TunnelDecision::Act;
using testing::HasSubstr;

const std::string kBackends =
    "backends:\n"
    "  orders: { url: \"http://orders.shop:8080\", hosts: [ orders, \"buy.example:81\" ] }\n"
    "  pay: { url: \"https://pay.example\" }\n"
    "  pay2: { url: \"https://pay2.example:8443\" }\n";
const std::string kTunnels =
    "tunnels: [ \"api.model.example:443\", \"*.in.example:443\", \"127.0.0.1:5432\" ]\n";

const Policy& Shop() {
  static const auto policy = LoadGood(kBackends + kTunnels);
  return *policy;
}

TunnelDecision Decide(const Policy& policy, const std::string& target,
                      std::optional<Heard> heard = std::nullopt) {
  const auto authority = ParseAuthority(target);
  EXPECT_TRUE(authority) << target;
  return DecideTunnel(policy, *authority, heard);
}
Heard Tls(std::string_view name) { return {ClientOpening::kTls, name}; }

TEST(TunnelDecisionTest, ABackendIsServedUnderEachOfItsNames) {
  for (const char* target : {"orders.shop:8080", "Orders:80", "orders:9", "buy.example:81",
                             "pay.example:80", "pay2.example:8443"}) {
    const TunnelDecision decision = Decide(Shop(), target);
    EXPECT_EQ(decision.act, Act::kServe) << target << decision.reason;
    EXPECT_NE(decision.backend, nullptr) << target;
    EXPECT_EQ(Decide(Shop(), target, Heard{ClientOpening::kHttp, {}}).act, Act::kServe) << target;
  }
}

TEST(TunnelDecisionTest, TlsToABackendIsRefusedAndTheWayOutNamed) {
  const TunnelDecision at_once = Decide(Shop(), "pay.example:443");
  EXPECT_EQ(at_once.act, Act::kRefuse);
  EXPECT_THAT(at_once.reason, HasSubstr("call http://pay.example through the proxy"));
  EXPECT_THAT(Decide(Shop(), "pay2.example:8443", Tls("pay2.example")).reason,
              HasSubstr("call http://pay2.example:8443 through the proxy"));
  EXPECT_EQ(Decide(Shop(), "orders:443").act, Act::kRefuse);
  for (const ClientOpening opening : {ClientOpening::kTls, ClientOpening::kBadTls,
                                      ClientOpening::kHttp2, ClientOpening::kOther}) {
    EXPECT_EQ(Decide(Shop(), "pay.example:80", Heard{opening, {}}).act, Act::kRefuse);
  }
}

TEST(TunnelDecisionTest, TlsToAnInterceptedBackendIsServedIfItAsksForThatHost) {
  const auto policy = LoadGood(
      "backends:\n"
      "  pay: { url: \"https://pay.example\", hosts: [ \"api.example:8443\" ], intercept: true }\n"
      "  quiet: { url: \"https://quiet.example\" }\n");
  for (const char* target : {"pay.example:443", "api.example:8443"}) {
    const std::string host(target, std::string_view(target).find(':'));
    EXPECT_EQ(Decide(*policy, target).act, Act::kServe) << target;
    EXPECT_EQ(Decide(*policy, target, Tls(host)).act, Act::kServe) << target;
    EXPECT_EQ(Decide(*policy, target, Tls("")).act, Act::kServe) << target;
    EXPECT_THAT(Decide(*policy, target, Tls("quiet.example")).reason,
                HasSubstr("TLS in it asks for 'quiet.example'"));
    for (const ClientOpening opening :
         {ClientOpening::kBadTls, ClientOpening::kHttp2, ClientOpening::kOther}) {
      EXPECT_EQ(Decide(*policy, target, Heard{opening, {}}).act, Act::kRefuse) << target;
    }
  }
  EXPECT_EQ(Decide(*policy, "quiet.example:443").act, Act::kRefuse);
  EXPECT_EQ(InterceptedHosts(*policy), (std::vector<std::string>{"pay.example", "api.example"}));
  EXPECT_TRUE(InterceptedHosts(Shop()).empty());
}

TEST(TunnelDecisionTest, OnlyWhatIsListedIsTunnelled) {
  for (const char* target : {"api.model.example:443", "a.in.example:443", "127.0.0.1:5432"}) {
    EXPECT_EQ(Decide(Shop(), target).act, Act::kTunnel) << target;
  }
  for (const char* target :
       {"api.model.example:80", "api.model.example:8443", "model.example:443",
        "x.api.model.example:443", "in.example:443", "a.b.in.example:443", "ain.example:443",
        "127.0.0.1:80", "127.0.0.2:5432", "elsewhere.example:443"}) {
    const TunnelDecision decision = Decide(Shop(), target);
    EXPECT_EQ(decision.act, Act::kRefuse) << target;
    EXPECT_THAT(decision.reason, HasSubstr("add \"" + std::string(target) + "\" to `tunnels`"));
  }
}

TEST(TunnelDecisionTest, TheHostOfABackendNeedsALineOfItsOwn) {
  const auto policy = LoadGood(kBackends + "tunnels: [ \"*.example:22\", \"pay2.example:22\" ]\n");
  EXPECT_EQ(Decide(*policy, "other.example:22").act, Act::kTunnel);
  EXPECT_EQ(Decide(*policy, "pay2.example:22").act, Act::kTunnel);
  const TunnelDecision decision = Decide(*policy, "pay.example:22");
  EXPECT_EQ(decision.act, Act::kRefuse);
  EXPECT_THAT(decision.reason, HasSubstr("'pay.example' is, or may be, the host of backend 'pay'"));
}

TEST(TunnelDecisionTest, AWildcardNeverMeansABackendUnderALongerOrShorterName) {
  const auto policy = LoadGood(
      "backends:\n"
      "  orders: { url: \"http://orders:8080\" }\n"
      "  mail: { url: \"http://mail.shop.svc:8080\" }\n"
      "tunnels: [ \"*.default.svc.cluster.local:8080\", \"*.shop:8080\" ]\n");
  EXPECT_EQ(Decide(*policy, "other.default.svc.cluster.local:8080").act, Act::kTunnel);
  EXPECT_EQ(Decide(*policy, "orders2.default.svc.cluster.local:8080").act, Act::kTunnel);
  EXPECT_EQ(Decide(*policy, "orders.default.svc.cluster.local:8080").act, Act::kRefuse);
  EXPECT_EQ(Decide(*policy, "mail2.shop:8080").act, Act::kTunnel);
  EXPECT_EQ(Decide(*policy, "mail.shop:8080").act, Act::kRefuse);
}

TEST(TunnelDecisionTest, TlsInATunnelMustAskForItsHost) {
  EXPECT_EQ(Decide(Shop(), "api.model.example:443", Tls("api.model.example")).act, Act::kTunnel);
  EXPECT_EQ(Decide(Shop(), "api.model.example:443", Tls("")).act, Act::kTunnel);
  EXPECT_EQ(Decide(Shop(), "api.model.example:443", Heard{ClientOpening::kOther, {}}).act,
            Act::kTunnel);
  EXPECT_EQ(Decide(Shop(), "api.model.example:443", Heard{ClientOpening::kBadTls, {}}).act,
            Act::kRefuse);
  for (const char* name : {"pay.example", "b.in.example", "model.example"}) {
    const TunnelDecision decision = Decide(Shop(), "a.in.example:443", Tls(name));
    EXPECT_EQ(decision.act, Act::kRefuse) << name;
    EXPECT_THAT(decision.reason, HasSubstr(name));
  }
}

TEST(TunnelDecisionTest, ObserveModeTunnelsAndSaysWhatEnforceWouldRefuse) {
  const auto policy = LoadGood("mode: observe\n" + kBackends + kTunnels);
  for (const char* target : {"pay.example:443", "elsewhere.example:22"}) {
    const TunnelDecision decision = Decide(*policy, target);
    EXPECT_EQ(decision.act, Act::kTunnel) << target;
    EXPECT_FALSE(decision.reason.empty()) << target;
  }
  EXPECT_EQ(Decide(*policy, "pay.example:80").act, Act::kServe);
  EXPECT_EQ(Decide(*policy, "api.model.example:443").reason, "");
}

TEST(TunnelDecisionTest, OnlyALoopbackAddressThatIsListedMayBeOne) {
  const auto loopback = *ParseIpAddress("127.0.0.1");
  const auto end = [](const std::string& target) {
    const auto authority = *ParseAuthority(target);
    return TunnelEnd(Shop(), authority, DecideTunnel(Shop(), authority, std::nullopt));
  };
  EXPECT_TRUE(end("127.0.0.1:5432").addresses.Allow(loopback));
  EXPECT_FALSE(end("api.model.example:443").addresses.Allow(loopback));
  EXPECT_FALSE(end("a.in.example:443").addresses.Allow(loopback));
  EXPECT_EQ(end("[fd00::7]:443").authority, "[fd00::7]:443");
}

std::string Load(const std::string& tunnels) {
  return ProblemsOf(LoadPolicyText("p.yaml", "version: 1\n" + kBackends + tunnels));
}

TEST(TunnelWordsTest, WhatCannotBeMeantIsAnError) {
  for (const char* entry : {"a.example", "*:443", "*.*.example:443", "a.*.example:443", "*.0.0.1:1",
                            "a.example:0", "a.example:65536", "https://a.example:443", "a:443/x",
                            "[::1:443", "0x7f.1:443", "*.:443", "a.example.:443"}) {
    EXPECT_THAT(Load("tunnels: [ \"" + std::string(entry) + "\" ]\n"),
                HasSubstr("error: tunnels[0]: accepted: host:port, or *.domain:port"))
        << entry;
  }
  for (const char* entry : {"169.254.169.254:80", "169.254.1.1:80", "0.0.0.0:80", "224.0.0.1:80",
                            "[fe80::1]:80", "[::ffff:169.254.169.254]:80"}) {
    EXPECT_THAT(Load("tunnels: [ \"" + std::string(entry) + "\" ]\n"),
                HasSubstr("to which no tunnel is made"))
        << entry;
  }
}

TEST(TunnelWordsTest, ATunnelPastABackendIsAnErrorAndToItsHostAWarning) {
  for (const char* entry : {"orders.shop:8080", "orders:22", "buy.example:81", "buy.example:443",
                            "pay.example:443", "pay.example:80", "pay2.example:443"}) {
    EXPECT_THAT(Load("tunnels: \"" + std::string(entry) + "\"\n"),
                HasSubstr("error: tunnels: " + std::string(entry) + " is where backend "))
        << entry;
  }
  EXPECT_THAT(Load("tunnels: pay.example:22\n"),
              HasSubstr("warning: tunnels: pay.example:22 is on the host of backend pay"));
  EXPECT_THAT(Load("tunnels: \"*.com:443\"\n"), HasSubstr("warning: tunnels: *.com:443 lets"));
  EXPECT_EQ(Load(kTunnels), "");
}

TEST(TunnelWordsTest, ExplainSaysWhatBecomesOfAConnect) {
  const auto explain = [](const std::string& text) {
    ExplainedCall call;
    EXPECT_TRUE(ParseCall(text, call)) << text;
    return Explain(Shop(), call);
  };
  EXPECT_EQ(explain("CONNECT elsewhere.example:443").refused, "tunnel-refused");
  EXPECT_EQ(explain("CONNECT pay.example:443").refused, "tunnel-refused");
  const Explanation listed = explain("CONNECT a.in.example:443");
  EXPECT_EQ(listed.refused, "");
  EXPECT_THAT(listed.reason, HasSubstr("`tunnels` lists *.in.example:443"));
  const Explanation served = explain("CONNECT pay.example:80");
  EXPECT_EQ(served.backend->name, "pay");
  EXPECT_THAT(served.reason, HasSubstr("each request"));
  ExplainedCall call;
  EXPECT_FALSE(ParseCall("CONNECT a.example", call));
}

}  // namespace
}  // namespace recourse::tunnel_test
