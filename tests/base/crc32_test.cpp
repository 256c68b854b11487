#include "proxy/base/crypto/crc32.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string>

namespace recourse::crc32_test {
namespace {

TEST(Crc32Test, KnownValues) {
  EXPECT_EQ(Crc32(0, ""), 0U);
  EXPECT_EQ(Crc32(0, "123456789"), 0xcbf43926U);
}

TEST(Crc32Test, SameAsZlibForEveryLengthPlaceAndStart) {
  std::mt19937_64 random(20261122);
  std::string data(5000, '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  for (std::size_t size = 0; size < 1200; ++size) {
    const std::size_t from = random() % 64;
    const auto start = static_cast<std::uint32_t>(random());
    const std::string_view part = std::string_view(data).substr(from, size);
    const auto* bytes = reinterpret_cast<const Bytef*>(part.data());
    ASSERT_EQ(Crc32(start, part), crc32_z(start, bytes, part.size())) << size << " from " << from;
  }
  const std::string_view all = data;
  EXPECT_EQ(Crc32(Crc32(0, all.substr(0, 777)), all.substr(777)), Crc32(0, all));
}

}  // namespace
}  // namespace recourse::crc32_test
