#include "proxy/startup/listening.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace recourse::listening_test {
namespace {

std::string Clash(const char* first, int first_port, const char* second, int second_port) {
  const auto at = [](const char* address, int port) {
    return Tcp::endpoint(boost::asio::ip::make_address(address), static_cast<std::uint16_t>(port));
  };
  const std::vector<std::pair<const char*, Tcp::endpoint>> endpoints = {
      {"--listen", at(first, first_port)}, {"--admin", at(second, second_port)}};
  return ClashOf(endpoints);
}

TEST(Listening, TheSamePortOfTheSameAddressClashesAndNamesBothFlags) {
  EXPECT_EQ(Clash("127.0.0.1", 80, "127.0.0.1", 80),
            "--admin: port 80 is that of --listen already; give it another one");
  EXPECT_EQ(Clash("127.0.0.1", 80, "127.0.0.1", 81), "");
  EXPECT_EQ(Clash("127.0.0.1", 80, "127.0.0.2", 80), "");
  EXPECT_EQ(Clash("127.0.0.1", 0, "127.0.0.1", 0), "") << "the system gives each its own";
}

TEST(Listening, AnAddressForAllClashesWithWhatItCovers) {
  EXPECT_NE(Clash("0.0.0.0", 80, "127.0.0.1", 80), "");
  EXPECT_NE(Clash("127.0.0.1", 80, "0.0.0.0", 80), "");
  EXPECT_NE(Clash("::", 80, "127.0.0.1", 80), "") << "takes IPv4 too";
  EXPECT_NE(Clash("0.0.0.0", 80, "::", 80), "");
  EXPECT_EQ(Clash("0.0.0.0", 80, "::1", 80), "");
}

TEST(Listening, EverywhereIsIpv4WhereThereIsNoIpv6) {
  std::vector<std::string> tried;
  const auto listen = [&](const Tcp::endpoint& endpoint) {
    tried.push_back(endpoint.address().to_string());
    if (endpoint.address().is_v4()) return;
    throw boost::system::system_error(boost::asio::error::address_family_not_supported);
  };
  ListenOrThrow("--probes", "[::]:19082", listen);
  EXPECT_EQ(tried, (std::vector<std::string>{"::", "0.0.0.0"}));
  EXPECT_THROW(ListenOrThrow("--probes", "[::1]:19082", listen), std::exception);
}

}  // namespace
}  // namespace recourse::listening_test
