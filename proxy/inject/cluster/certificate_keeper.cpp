#include "proxy/inject/cluster/certificate_keeper.h"

#include <fmt/format.h>
#include <openssl/pem.h>

#include <algorithm>
#include <utility>

#include "proxy/base/ca_limits.h"
#include "proxy/base/crypto/base64url.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/log/log.h"
#include "proxy/net/tls/leaf_issuer.h"
#include "proxy/net/tls/pod_ca.h"

namespace recourse {
namespace {

constexpr Millis kAnswerMax{5'000};
constexpr int kConflictsMax = 5;  // other replicas write at the same time
constexpr int kConflict = 409;
// Members of the Secret; `ca.crt` is where others look for a CA.
constexpr std::string_view kTrusted = "ca.crt", kSigning = "signing.crt", kKey = "signing.key",
                           kNext = "next.crt", kNextKey = "next.key";

std::string FromBase64(std::string_view text) {
  std::string url(text);
  std::ranges::replace(url, '+', '-');
  std::ranges::replace(url, '/', '_');
  while (url.ends_with('=')) url.pop_back();
  return FromBase64Url(url).value_or("");
}

WebhookCas CasIn(const Json& secret) {
  const Json* const data = secret.Find("data");
  const auto member = [&](std::string_view name) {
    return data == nullptr ? std::string() : FromBase64(TextOf(*data, name));
  };
  return {.trusted = member(kTrusted),
          .signing = member(kSigning),
          .key = member(kKey),
          .next = member(kNext),
          .next_key = member(kNextKey)};
}

// As JSON merge patch, which fails if somebody else has written meanwhile.
std::string PatchOf(const WebhookCas& cas, std::string_view version) {
  std::string body;
  {
    JsonObject patch(body);
    JsonObject(patch.Value("metadata")).Text("resourceVersion", version);
    JsonObject data(patch.Value("data"));
    data.Text(kTrusted, ToBase64(cas.trusted));
    data.Text(kSigning, ToBase64(cas.signing));
    data.Text(kKey, ToBase64(cas.key));
    data.Text(kNext, ToBase64(cas.next));
    data.Text(kNextKey, ToBase64(cas.next_key));
  }
  return body;
}

// Every webhook of the configuration with that CA; empty: they all have it.
std::string CaPatchFor(const Json& configuration, const std::string& bundle) {
  const Json* const webhooks = configuration.Find("webhooks");
  bool is_current = true;
  std::string body;
  if (!IsArray(webhooks)) return body;
  {
    JsonObject patch(body);
    patch.Each("webhooks", webhooks->items, [&](std::string& out, const Json& webhook) {
      is_current = is_current && TextAt(webhook, "/clientConfig/caBundle") == bundle;
      JsonObject one(out);
      one.Text("name", TextOf(webhook, "name"));
      JsonObject(one.Value("clientConfig")).Text("caBundle", bundle);
    });
  }
  return is_current ? std::string() : body;
}

}  // namespace

FileResult<WebhookCas> CertificateKeeper::ReadAndRenew() {
  const auto space = api_.Namespace();
  if (!space) return std::unexpected(space.error().why);
  const std::string path = fmt::format("/api/v1/namespaces/{}/secrets/{}", *space, wish_.secret);
  for (int turn = 0;; ++turn) {
    const auto secret = api_.Get(path, KubeApi::Form::kWhole, kAnswerMax);
    if (!secret) {
      return std::unexpected(fmt::format("cannot read the Secret {}/{}: {}", *space, wish_.secret,
                                         secret.error().why));
    }
    const WebhookCas kept = CasIn(*secret);
    auto cas = NextCas(kept,
                       {.name = wish_.host,
                        .now = clock_.WallNow(),
                        .life = wish_.ca_life,
                        .is_published = published_ == kept.trusted},
                       random_);
    if (!cas || *cas == kept) return cas;
    const auto written =
        api_.Patch(path, "application/merge-patch+json",
                   PatchOf(*cas, TextAt(*secret, "/metadata/resourceVersion")), kAnswerMax);
    if (written) {
      Log(LogLevel::kInfo, "the CA of the webhook was renewed", {{"secret", wish_.secret}});
      return cas;
    }
    if (written.error().status != kConflict || turn == kConflictsMax) {
      return std::unexpected(fmt::format("cannot write the Secret {}/{}: {}", *space, wish_.secret,
                                         written.error().why));
    }
  }
}

FileResult<void> CertificateKeeper::Sign(const WebhookCas& cas) {
  const WallTime now = clock_.WallNow();
  if (cas.signing == signed_by_ && now < renew_at_) return {};
  const auto ca = PodCa::Read(cas.signing, cas.key);
  if (!ca) return std::unexpected(fmt::format("the CA in the Secret {}", ca.error()));
  const std::string key_pem = PodCa::NewKey();
  const BioPtr bio(BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size())));
  const KeyPtr key(bio == nullptr ? nullptr
                                  : PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  const X509Ptr leaf = key == nullptr ? nullptr : MintLeaf(**ca, *key, wish_.host, now, random_);
  if (leaf == nullptr) return std::unexpected("OpenSSL cannot sign for " + wish_.host);
  // Whoever reads between the two is told that they do not belong together, and reads again.
  if (auto written = WriteFileAtomically(files_.key, key_pem); !written) return written;
  if (auto written = WriteFileAtomically(files_.certificate, ToPem(*leaf)); !written) {
    return written;
  }
  signed_by_ = cas.signing;
  renew_at_ = now + (EndOf(*leaf) - now) / limits::kRenewalPart * (limits::kRenewalPart - 1);
  end_ = (*ca)->end();
  return {};
}

FileResult<void> CertificateKeeper::Publish(const std::string& kind, const std::string& name,
                                            const std::string& trusted) {
  if (name.empty()) return {};
  const std::string path = fmt::format("/apis/admissionregistration.k8s.io/v1/{}/{}", kind, name);
  const auto configuration = api_.Get(path, KubeApi::Form::kWhole, kAnswerMax);
  if (!configuration) {
    return std::unexpected(
        fmt::format("cannot read {}/{}: {}", kind, name, configuration.error().why));
  }
  std::string patch = CaPatchFor(*configuration, ToBase64(trusted));
  if (patch.empty()) return {};
  const auto written =
      api_.Patch(path, "application/strategic-merge-patch+json", std::move(patch), kAnswerMax);
  if (!written) {
    return std::unexpected(fmt::format("cannot write {}/{}: {}", kind, name, written.error().why));
  }
  Log(LogLevel::kInfo, "API servers were told of the CA", {{"configuration", name}});
  return {};
}

FileResult<void> CertificateKeeper::Look() {
  const auto cas = ReadAndRenew();
  if (!cas) return std::unexpected(cas.error());
  if (auto made = Sign(*cas); !made) return made;
  published_.clear();
  auto told = Publish("mutatingwebhookconfigurations", wish_.mutating, cas->trusted);
  if (told) told = Publish("validatingwebhookconfigurations", wish_.validating, cas->trusted);
  if (told) published_ = cas->trusted;
  return told;
}

}  // namespace recourse
