#include "proxy/base/crypto/crc32.h"

#include <zlib.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace recourse {
namespace {

std::uint32_t CrcOfZlib(std::uint32_t crc, std::string_view data) {
  return static_cast<std::uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

#ifdef __x86_64__

// Folding by carry-less multiplication (Gopal et al., Intel 2009): 64 bytes at a time are taken
// modulo the polynomial into the 64 that follow them. The constants are powers of x modulo the
// polynomial, bit-reflected.
constexpr std::size_t kBlock = 16, kBlocks = 4;
constexpr long long kFold64Low = 0x154442bd4, kFold64High = 0x1c6e41596;  // x^(512+-32)
constexpr long long kFold16Low = 0x1751997d0, kFold16High = 0x0ccaa009e;  // x^(128+-32)
constexpr long long kTo64 = 0x163cd6124;
constexpr long long kPolynomial = 0x1db710641, kQuotient = 0x1f7011641;  // Barrett

[[gnu::target("pclmul,sse4.1")]] __m128i Load(const char* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

[[gnu::target("pclmul,sse4.1")]] __m128i Fold(__m128i value, __m128i constants, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(value, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// 128 bits down to 32.
[[gnu::target("pclmul,sse4.1")]] std::uint32_t Reduce(__m128i value) {
  const __m128i low_halves = _mm_setr_epi32(-1, 0, -1, 0);
  const __m128i fold = _mm_set_epi64x(kFold16High, kFold16Low);
  value = _mm_xor_si128(_mm_srli_si128(value, 8), _mm_clmulepi64_si128(value, fold, 0x10));
  const __m128i rest = _mm_srli_si128(value, 4);
  value = _mm_clmulepi64_si128(_mm_and_si128(value, low_halves), _mm_set_epi64x(0, kTo64), 0x00);
  value = _mm_xor_si128(value, rest);
  const __m128i barrett = _mm_set_epi64x(kQuotient, kPolynomial);
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(value, low_halves), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_halves), barrett, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(value, quotient), 1));
}

// Of whole blocks, four at least. `crc` and the result are inverted, as the algorithm has them.
[[gnu::target("pclmul,sse4.1")]] std::uint32_t FoldBlocks(std::uint32_t crc,
                                                          std::string_view data) {
  const char* at = data.data();
  std::size_t left = data.size() / kBlock;
  __m128i parts[kBlocks];
  for (std::size_t i = 0; i < kBlocks; ++i) parts[i] = Load(at + i * kBlock);
  parts[0] = _mm_xor_si128(parts[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  const __m128i fold64 = _mm_set_epi64x(kFold64High, kFold64Low);
  for (at += kBlocks * kBlock, left -= kBlocks; left >= kBlocks; left -= kBlocks) {
    for (std::size_t i = 0; i < kBlocks; ++i)
      parts[i] = Fold(parts[i], fold64, Load(at + i * kBlock));
    at += kBlocks * kBlock;
  }
  const __m128i fold16 = _mm_set_epi64x(kFold16High, kFold16Low);
  __m128i value = parts[0];
  for (std::size_t i = 1; i < kBlocks; ++i) value = Fold(value, fold16, parts[i]);
  for (; left > 0; --left, at += kBlock) value = Fold(value, fold16, Load(at));
  return Reduce(value);
}

bool HasCarryless() {
  static const bool has = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return has;
}

#endif

}  // namespace

std::uint32_t Crc32(std::uint32_t crc, std::string_view data) {
#ifdef __x86_64__
  if (data.size() >= kBlocks * kBlock && HasCarryless()) {
    const std::size_t whole = data.size() / kBlock * kBlock;
    crc = ~FoldBlocks(~crc, data.substr(0, whole));
    data.remove_prefix(whole);
  }
#endif
  return CrcOfZlib(crc, data);
}

}  // namespace recourse
