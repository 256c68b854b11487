#include "filters/ledger/rules/key_entry.h"

#include <cstring>
#include <string>

#include "proxy/base/bytes.h"

namespace recourse {

Digest KeyOfGeneration(const Digest& base, std::uint32_t generation) {
  if (generation == 0) return base;
  std::string bytes(AsView(base));
  ByteWriter(bytes).Int(std::uint64_t{generation});
  return Sha256(bytes);
}

Digest KeyOfIntent(const Digest& intent, Principal principal) {
  Digest key = intent;
  Principal part = 0;
  std::memcpy(&part, key.data(), sizeof part);
  part ^= principal;
  std::memcpy(key.data(), &part, sizeof part);
  return key;
}

Digest KeyOfBefore(const Digest& intent, std::uint64_t operation) {
  std::string bytes("recourse-before");
  bytes.append(AsView(intent));
  ByteWriter(bytes).Int(operation);
  return Sha256(bytes);
}

}  // namespace recourse
