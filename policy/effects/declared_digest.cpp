#include "policy/effects/declared_digest.h"

#include "proxy/base/crypto/hash.h"

namespace recourse {

const Json* DeclaredEffects(const Json& holder) {
  const Json* const meta = holder.kind == Json::Kind::kObject ? holder.Find("_meta") : nullptr;
  return IsObject(meta) ? meta->Find(kEffectMeta) : nullptr;
}

std::string DeclaredDigest(const Json& tool) {
  const Json* const declared = DeclaredEffects(tool);
  return declared == nullptr ? std::string() : "sha256:" + ToHex(Sha256(CanonicalJson(*declared)));
}

}  // namespace recourse
