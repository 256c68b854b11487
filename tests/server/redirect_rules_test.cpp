#include "proxy/redirect/redirect_rules.h"

#include <gtest/gtest.h>

namespace recourse::redirect_rules_test {
namespace {

TEST(RedirectRulesTest, TheUsualRules) {
  EXPECT_EQ(RenderRedirectRules({}), R"(table inet recourse
delete table inet recourse
table inet recourse {
  chain agents {
    type nat hook output priority -110; policy accept;
    meta skuid 19080 return
    oifname "lo" return
    tcp dport { 80, 443 } redirect to :19083
  }
  chain quic {
    type filter hook output priority 0; policy accept;
    meta skuid 19080 return
    oifname "lo" return
    udp dport 443 drop
  }
}
)");
}

TEST(RedirectRulesTest, NewOnesAreTheSameButReplaceNone) {
  const std::string replaced = RenderRedirectRules({}), added = RenderNewRedirectRules({});
  const std::string removal = RenderRedirectRemoval();
  EXPECT_EQ(added, "create table inet recourse\n" + replaced.substr(removal.size()));
}

TEST(RedirectRulesTest, SomePortThatIsLedHere) {
  RedirectRules rules;
  EXPECT_EQ(SomeRedirectedPort(rules), 80);
  rules.exclude_ports = {80};
  EXPECT_EQ(SomeRedirectedPort(rules), 443);
  rules.exclude_ports = {80, 443};
  EXPECT_EQ(SomeRedirectedPort(rules), std::nullopt);
  rules.ports = {};
  rules.exclude_ports = {80, 81};
  EXPECT_EQ(SomeRedirectedPort(rules), 82);
}

TEST(RedirectRulesTest, EveryPortButSomeAndNetworksOfBothFamilies) {
  const RedirectRules rules{.uid = 7,
                            .port = 15001,
                            .ports = {},
                            .exclude_ports = {5432, 22},
                            .exclude_networks = {"10.0.0.0/8", "fd00::/8", "192.0.2.7"}};
  EXPECT_EQ(RenderRedirectRules(rules), R"(table inet recourse
delete table inet recourse
table inet recourse {
  chain agents {
    type nat hook output priority -110; policy accept;
    meta skuid 7 return
    oifname "lo" return
    ip daddr 10.0.0.0/8 return
    ip6 daddr fd00::/8 return
    ip daddr 192.0.2.7 return
    tcp dport { 22, 53, 853, 5432 } return
    meta l4proto tcp redirect to :15001
  }
  chain quic {
    type filter hook output priority 0; policy accept;
    meta skuid 7 return
    oifname "lo" return
    ip daddr 10.0.0.0/8 return
    ip6 daddr fd00::/8 return
    ip daddr 192.0.2.7 return
    udp dport 443 drop
  }
}
)");
  EXPECT_EQ(WordsForRedirected(rules), "every TCP port but 22, 53, 853, 5432");
}

TEST(RedirectRulesTest, EveryPortIsNotThoseOfDnsAndListedOnesAre) {
  RedirectRules every, listed;
  every.ports = {};
  listed.ports = {53, 853};
  EXPECT_NE(RenderRedirectRules(every).find("tcp dport { 53, 853 } return"), std::string::npos);
  EXPECT_NE(RenderRedirectRules(listed).find("tcp dport { 53, 853 } redirect"), std::string::npos);
  EXPECT_EQ(WordsForRedirected(every), "every TCP port but 53, 853");
  EXPECT_EQ(WordsForRedirected(listed), "TCP ports 53, 853");
}

TEST(RedirectRulesTest, QuicIsLeftAloneWhereHttpsIs) {
  RedirectRules plain_only, excluded;
  plain_only.ports = {80};
  excluded.exclude_ports = {443};
  EXPECT_EQ(RenderRedirectRules(plain_only).find("udp"), std::string::npos);
  EXPECT_EQ(RenderRedirectRules(excluded).find("udp"), std::string::npos);
}

TEST(RedirectRulesTest, RemovalIsGoodWhereNothingIsInstalled) {
  EXPECT_EQ(RenderRedirectRemoval(), "table inet recourse\ndelete table inet recourse\n");
}

TEST(RedirectRulesTest, AdviceFitsWhatNftSaid) {
  EXPECT_NE(AdviceForNft("Operation not permitted (you must be root)").find("NET_ADMIN"),
            std::string_view::npos);
  EXPECT_NE(AdviceForNft("netlink: Error: cache initialization failed: Operation not permitted")
                .find("NET_ADMIN"),
            std::string_view::npos);
  EXPECT_NE(AdviceForNft("-:8:5-52: Error: Could not process rule: No such file or directory")
                .find("nft_chain_nat"),
            std::string_view::npos);
  EXPECT_NE(
      AdviceForNft("Error: cache initialization failed: Protocol not supported").find("kernel"),
      std::string_view::npos);
  EXPECT_NE(AdviceForNft("-:1:1-3: Error: syntax error").find("redirect show"),
            std::string_view::npos);
}

}  // namespace
}  // namespace recourse::redirect_rules_test
