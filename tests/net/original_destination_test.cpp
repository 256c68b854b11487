// What needs rules of the kernel is in tests/e2e/test_redirect.py.
#include "proxy/net/loop/original_destination.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

namespace recourse::original_destination_test {
namespace {

class OriginalDestinationTest : public testing::TestWithParam<const char*> {
 protected:
  OriginalDestinationTest()
      : acceptor_(context_),
        client_(context_),
        address_(boost::asio::ip::make_address(GetParam())) {
    IoError none;
    acceptor_.open(address_.is_v6() ? Tcp::v6() : Tcp::v4(), none);
    if (!none) acceptor_.bind({address_, 0}, none);
    has_family_ = !none;
    if (has_family_) acceptor_.listen();
  }
  void SetUp() override {
    if (!has_family_) GTEST_SKIP() << "this machine has no IPv6";
  }

  boost::asio::io_context context_;
  Tcp::acceptor acceptor_;
  Tcp::socket client_;
  const boost::asio::ip::address address_;
  bool has_family_ = false;
};

TEST_P(OriginalDestinationTest, OfAConnectionThatNothingRedirectedItIsOursOrUnknown) {
  client_.connect(acceptor_.local_endpoint());
  Tcp::socket accepted = acceptor_.accept();
  const auto original = OriginalDestination(accepted.native_handle());
  EXPECT_TRUE(!original || *original == accepted.local_endpoint());
}

TEST_P(OriginalDestinationTest, TheOwnerOfASocketIsFoundByItsEnds) {
  client_.connect(acceptor_.local_endpoint());
  const auto owner = OwnerOfSocket(client_.local_endpoint(), client_.remote_endpoint());
  if (!owner) GTEST_SKIP() << "this kernel has no tcp_diag";
  EXPECT_EQ(*owner, ::getuid());
  EXPECT_EQ(OwnerOfSocket(acceptor_.local_endpoint(), {address_, 0}), ::getuid());
  // Nobody is connected from there.
  auto other = client_.local_endpoint();
  other.port(static_cast<std::uint16_t>(other.port() == 1 ? 2 : 1));
  EXPECT_EQ(OwnerOfSocket(other, client_.remote_endpoint()), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Families, OriginalDestinationTest, testing::Values("127.0.0.1", "::1"));

}  // namespace
}  // namespace recourse::original_destination_test
