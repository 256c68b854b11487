#include "proxy/inject/cluster/webhook_ca.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "proxy/base/ca_limits.h"
#include "proxy/net/tls/pod_ca.h"

namespace recourse {
namespace {

constexpr Millis kSettles{24 * 3'600'000};
constexpr int kSettlesPart = 6;
constexpr std::size_t kTrustedMax = 8;

using CaPtr = std::shared_ptr<const PodCa>;

// Null: it cannot sign any more, or is none.
CaPtr Usable(const std::string& certificate, const std::string& key, WallTime now) {
  auto read = PodCa::Read(certificate, key);
  return read && (*read)->end() > now ? std::move(*read) : nullptr;
}

std::expected<void, std::string> Make(std::string& certificate, std::string& key,
                                      const WebhookCaWish& wish, Random& random) {
  key = PodCa::NewKey();
  const CaWish asked{.name = wish.name, .hosts = std::nullopt, .now = wish.now, .life = wish.life};
  auto made = PodCa::NewCertificatePem(key, asked, random);
  if (!made) return std::unexpected("the new CA " + made.error());
  certificate = std::move(*made);
  return {};
}

bool EndsSoon(const PodCa& ca, WallTime now) {
  return (ca.end() - now) * limits::kRenewalPart < ca.end() - ca.begin();
}

bool HasSettled(const PodCa& next, const WebhookCaWish& wish) {
  const auto since = wish.now - (next.begin() + limits::kCertificateBackdate);
  return wish.is_published && since >= std::min(kSettles, wish.life / kSettlesPart);
}

// What signs and will sign, then what else has not ended.
std::string Trusted(const WebhookCas& cas, WallTime now) {
  std::string text = cas.signing + cas.next;
  std::size_t count = cas.next.empty() ? 1 : 2;
  for (const X509Ptr& certificate : CertificatesIn(cas.trusted)) {
    const std::string pem = ToPem(*certificate);
    if (EndOf(*certificate) <= now || text.contains(pem) || ++count > kTrustedMax) continue;
    text += pem;
  }
  return text;
}

}  // namespace

std::expected<WebhookCas, std::string> NextCas(const WebhookCas& kept, const WebhookCaWish& wish,
                                               Random& random) {
  WebhookCas cas = kept;
  const CaPtr signing = Usable(cas.signing, cas.key, wish.now);
  const CaPtr next = Usable(cas.next, cas.next_key, wish.now);
  if (next == nullptr) cas.next = cas.next_key = "";
  if (next != nullptr && (signing == nullptr || HasSettled(*next, wish))) {
    cas.signing = std::exchange(cas.next, {});
    cas.key = std::exchange(cas.next_key, {});
  } else if (signing == nullptr) {
    if (auto made = Make(cas.signing, cas.key, wish, random); !made) {
      return std::unexpected(std::move(made.error()));
    }
  } else if (next == nullptr && EndsSoon(*signing, wish.now)) {
    if (auto made = Make(cas.next, cas.next_key, wish, random); !made) {
      return std::unexpected(std::move(made.error()));
    }
  }
  cas.trusted = Trusted(cas, wish.now);
  return cas;
}

}  // namespace recourse
