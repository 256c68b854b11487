#include "policy/uri/addresses.h"

#include <gtest/gtest.h>

namespace recourse::addresses_test {
namespace {

IpAddress Ip(const char* text) {
  const auto address = ParseIpAddress(text);
  EXPECT_TRUE(address) << text;
  return address.value_or(IpAddress{});
}

TEST(AddressesTest, EveryFormOfAnAddressHasTheClassOfWhatItLeadsTo) {
  using enum AddressClass;
  const std::pair<const char*, AddressClass> rows[] = {
      {"8.8.8.8", kPublic},
      {"2606:4700::1111", kPublic},
      {"126.255.255.255", kPublic},
      {"128.0.0.0", kPublic},
      {"10.0.0.1", kPrivate},
      {"172.15.255.255", kPublic},
      {"172.16.0.0", kPrivate},
      {"172.31.255.255", kPrivate},
      {"172.32.0.0", kPublic},
      {"192.168.1.1", kPrivate},
      {"100.64.0.1", kPrivate},
      {"100.128.0.1", kPublic},
      {"fd12::1", kPrivate},
      {"127.0.0.1", kLoopback},
      {"127.255.255.254", kLoopback},
      {"::1", kLoopback},
      {"169.254.1.1", kLinkLocal},
      {"169.253.255.255", kPublic},
      {"fe80::1", kLinkLocal},
      {"febf::1", kLinkLocal},
      {"169.254.169.254", kMetadata},
      {"169.254.170.2", kMetadata},
      {"fd00:ec2::254", kMetadata},
      {"100.100.100.200", kMetadata},
      {"0.0.0.0", kUnspecified},
      {"0.1.2.3", kUnspecified},
      {"::", kUnspecified},
      {"224.0.0.1", kMulticast},
      {"239.255.255.255", kMulticast},
      {"ff02::1", kMulticast},
      {"240.0.0.1", kBroadcast},
      {"255.255.255.255", kBroadcast},
      // IPv4 inside IPv6: mapped, compatible, NAT64, 6to4, Teredo.
      {"::ffff:127.0.0.1", kLoopback},
      {"::ffff:169.254.169.254", kMetadata},
      {"::127.0.0.1", kLoopback},
      {"64:ff9b::169.254.169.254", kMetadata},
      {"64:ff9b::8.8.8.8", kPublic},
      {"64:ff9b:1::127.0.0.1", kLoopback},
      {"2002:7f00:1::", kLoopback},
      {"2002:a9fe:a9fe::1", kMetadata},
      {"2002:808:808::1", kPublic},
      {"2001:0:4136:e378:8000:63bf:80ff:fffe", kLoopback},
  };
  for (const auto& [text, expected] : rows) {
    EXPECT_EQ(NameOf(ClassOf(Ip(text))), NameOf(expected)) << text;
  }
}

TEST(AddressesTest, ARangeIsAnAddressAndAPrefixWithoutBitsAfterIt) {
  for (const char* good : {"10.0.0.0/8", "10.1.2.3", "10.1.2.3/32", "0.0.0.0/0", "::/0", "fd00::/8",
                           "fe80::1/128", "192.168.4.0/22"}) {
    EXPECT_TRUE(ParseAddressRange(good)) << good;
  }
  for (const char* bad : {"",
                          "/",
                          "/8",
                          "10.0.0.0/",
                          "10.0.0.0/33",
                          "10.0.0.0/-1",
                          "10.0.0.0/08",
                          "10.0.0.0/8 ",
                          " 10.0.0.0/8",
                          "10.0.0.0/8/8",
                          "10.0.0.0/+8",
                          "10.0.0/8",
                          "10.0.0.1/8",
                          "fd00::/129",
                          "fd00::1/64",
                          "0x0a.0.0.0/8",
                          "010.0.0.0/8",
                          "167772160/8",
                          "[fd00::]/8",
                          "fe80::1%eth0",
                          "localhost",
                          "10.0.0.0/x"}) {
    EXPECT_FALSE(ParseAddressRange(bad)) << bad;
  }
}

TEST(AddressesTest, ARangeContainsWhatSharesItsPrefix) {
  const std::tuple<const char*, const char*, bool> rows[] = {
      {"10.0.0.0/8", "10.255.255.255", true},
      {"10.0.0.0/8", "11.0.0.0", false},
      {"192.168.4.0/22", "192.168.7.255", true},
      {"192.168.4.0/22", "192.168.8.0", false},
      {"10.1.2.3", "10.1.2.3", true},
      {"10.1.2.3", "10.1.2.2", false},
      {"fd00::/8", "fdff::1", true},
      {"fd00::/8", "fc00::1", false},
      {"0.0.0.0/0", "1.2.3.4", true},
      {"0.0.0.0/0", "2606:4700::1111", false},
      {"10.0.0.0/8", "::ffff:10.1.1.1", true},
  };
  for (const auto& [range, address, expected] : rows) {
    EXPECT_EQ(ParseAddressRange(range)->Contains(Ip(address)), expected) << range << ' ' << address;
  }
}

TEST(AddressesTest, WithoutAnyWordPublicAndPrivateAddressesAreAllowedAndNothingElse) {
  const AddressRules rules;
  for (const char* good : {"8.8.8.8", "10.0.0.1", "fd12::1", "::ffff:10.0.0.1"}) {
    EXPECT_TRUE(rules.Allow(Ip(good))) << good;
  }
  for (const char* bad :
       {"127.0.0.1", "::1", "169.254.1.1", "fe80::1", "169.254.169.254", "fd00:ec2::254", "0.0.0.0",
        "::", "224.0.0.1", "255.255.255.255", "::ffff:127.0.0.1", "64:ff9b::169.254.169.254"}) {
    EXPECT_FALSE(rules.Allow(Ip(bad))) << bad;
  }
}

TEST(AddressesTest, AListNamesEverythingThatIsAllowed) {
  AddressRules rules{.classes = {AddressClass::kLoopback},
                     .ranges = {*ParseAddressRange("10.1.0.0/16")}};
  EXPECT_TRUE(rules.Allow(Ip("127.0.0.1")));
  EXPECT_TRUE(rules.Allow(Ip("10.1.2.3")));
  EXPECT_FALSE(rules.Allow(Ip("10.2.0.1")));
  EXPECT_FALSE(rules.Allow(Ip("8.8.8.8")));
}

TEST(AddressesTest, NoWordAndNoRangeCoversAMetadataAddressThatIsNotListedByItself) {
  AddressRules rules{.classes = {AddressClass::kLinkLocal, AddressClass::kPrivate},
                     .ranges = {*ParseAddressRange("0.0.0.0/0"), *ParseAddressRange("::/0")}};
  EXPECT_TRUE(rules.Allow(Ip("169.254.1.1")));
  EXPECT_FALSE(rules.Allow(Ip("169.254.169.254")));
  EXPECT_FALSE(rules.Allow(Ip("fd00:ec2::254")));
  EXPECT_FALSE(rules.Allow(Ip("0.0.0.0")));
  EXPECT_FALSE(rules.Allow(Ip("224.0.0.1")));
  rules.ranges.push_back(*ParseAddressRange("169.254.169.254"));
  EXPECT_TRUE(rules.Allow(Ip("169.254.169.254")));
}

}  // namespace
}  // namespace recourse::addresses_test
