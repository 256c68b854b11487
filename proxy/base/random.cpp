#include "proxy/base/random.h"

#include <openssl/rand.h>

#include "proxy/base/check.h"

namespace recourse {

void SystemRandom::Fill(std::span<unsigned char> out) {
  RC_CHECK(RAND_bytes(out.data(), static_cast<int>(out.size())) == 1);
}

}  // namespace recourse
