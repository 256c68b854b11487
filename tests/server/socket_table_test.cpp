#include "proxy/telemetry/socket_table.h"

#include <gtest/gtest.h>

namespace recourse::socket_table_test {
namespace {

constexpr std::string_view kHead =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";
constexpr std::string_view kRest = " 00000000:00000000 00:00000000 00000000 ";

std::string Line(std::string_view ends, std::string_view state, std::string_view user,
                 std::string_view inode) {
  return "   0: " + std::string(ends) + ' ' + std::string(state) + std::string(kRest) + "    " +
         std::string(user) + "        0 " + std::string(inode) + " 1 0000000000000000 20 4 30\n";
}

Tcp::endpoint At(const char* address, std::uint16_t port) {
  return {boost::asio::ip::make_address(address), port};
}

TEST(SocketTable, ConnectionsOfProcessesAreReadWithTheirUser) {
  const auto sockets = ReadSocketTable(
      std::string(kHead) + Line("0100007F:1F90 0200000A:01BB", "01", "1000", "77"), 9);
  ASSERT_EQ(sockets.size(), 1u);
  EXPECT_EQ(sockets[0].local, At("127.0.0.1", 8080));
  EXPECT_EQ(sockets[0].remote, At("10.0.0.2", 443));
  EXPECT_EQ(sockets[0].user, 1000u);
  EXPECT_EQ(sockets[0].inode, 77u);
}

TEST(SocketTable, AddressesOfIpv6AreReadAndThoseWithinAreOfIpv4) {
  const auto sockets = ReadSocketTable(
      Line("00000000000000000000000001000000:0050 B80D0120000000000000000001000000:01BB", "01", "1",
           "5") +
          Line("0000000000000000FFFF00000200000A:0050 0000000000000000FFFF00000300000A:0051", "01",
               "1", "6"),
      9);
  ASSERT_EQ(sockets.size(), 2u);
  EXPECT_EQ(sockets[0].local, At("::1", 80));
  EXPECT_EQ(sockets[0].remote, At("2001:db8::1", 443));
  EXPECT_EQ(sockets[1].remote, At("10.0.0.3", 81));
}

TEST(SocketTable, ListenersAndWhatNobodyHasAnyMoreAreLeftOut) {
  const std::string text = Line("0100007F:1F90 00000000:0000", "0A", "1000", "77") +
                           Line("0100007F:1F90 0200000A:01BB", "06", "0", "0") + "junk\n: \n" +
                           Line("0100007F 0200000A:01BB", "01", "1", "5") +
                           Line("0100007F:1F90 02:01BB", "01", "1", "5");
  EXPECT_TRUE(ReadSocketTable(text, 9).empty());
}

TEST(SocketTable, NoMoreIsReadThanIsAskedFor) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += Line("0100007F:1F90 0200000A:01BB", "01", "1", "5");
  EXPECT_EQ(ReadSocketTable(text, 7).size(), 7u);
}

TEST(SocketTable, OnlyConnectionsToBackendsThatAreNotLedHereAreUnguarded) {
  const auto backend = At("10.0.0.2", 443);
  const std::vector<BackendAddress> backends = {{backend, "pay"}};
  const Guarded guarded{.user = 19080, .redirect_port = 19083};
  const std::vector<TcpSocket> sockets = {
      {At("10.0.0.9", 1), backend, 1000, 1},   // past it
      {At("10.0.0.9", 2), backend, 19080, 2},  // its own
      {At("10.0.0.9", 3), backend, 1000, 3},   // led to it by the kernel
      {At("127.0.0.1", 19083), At("10.0.0.9", 3), 19080, 4},
      {At("10.0.0.9", 4), At("10.0.0.2", 80), 1000, 5},     // another port
      {At("127.0.0.1", 19083), At("10.0.0.9", 1), 1000, 6}  // somebody else's listener
  };
  const auto found = FindUnguarded(sockets, backends, guarded);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].inode, 1u);
  EXPECT_EQ(found[0].backend, "pay");
  EXPECT_EQ(found[0].user, 1000u);
}

}  // namespace
}  // namespace recourse::socket_table_test
