#include "proxy/ca/ca_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "proxy/base/ca_limits.h"
#include "proxy/base/crypto/aead.h"

namespace recourse {
namespace {

std::unexpected<std::string> Unusable(const std::string& path, const std::string& why) {
  return std::unexpected(path + " " + why);
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

FileResult<void> MakeKey(const std::string& path) {
  std::string key = PodCa::NewKey();
  if (key.empty()) return std::unexpected("OpenSSL cannot make a P-256 key");
  const auto made = CreateFileOnce(path, key);
  Wipe(key);
  if (!made) return std::unexpected(made.error());
  return {};
}

// Whoever has trusted the certificate before goes on doing so: key and subject stay.
FileResult<void> MakeCertificate(const std::string& directory, const CaWish& wish, Random& random) {
  auto key = ReadPrivateFile(CaKeyPath(directory), limits::kCaFileBytesMax);
  if (!key) return std::unexpected(key.error());
  const auto made = PodCa::NewCertificatePem(*key, wish, random);
  Wipe(*key);
  if (!made) return Unusable(CaKeyPath(directory), made.error());
  return WriteFileAtomically(CaCertificatePath(directory), *made, Readers::kEverybody);
}

bool IsEnding(const PodCa& ca, WallTime now) {
  return ca.end() - now < (ca.end() - ca.begin()) / limits::kRenewalPart;
}

std::string FirstForbidden(const PodCa& ca, const CaWish& wish) {
  return wish.hosts ? ca.Forbidden(*wish.hosts) : std::string();
}

// Why the CA needs another certificate; kFound: it needs none.
CaState Need(const PodCa& ca, const CaWish& wish) {
  if (wish.hosts && wish.hosts->empty()) return CaState::kFound;
  if (IsEnding(ca, wish.now)) return CaState::kRenewed;
  return FirstForbidden(ca, wish).empty() ? CaState::kFound : CaState::kWidened;
}

// As `wish`, and whatever `ca` permits; valid as long as that, so that its renewal is not put off,
// which leaves out again what nobody wishes any more.
CaWish Widened(const PodCa& ca, CaWish wish) {
  std::vector<std::string> hosts = ca.Permitted();
  for (std::string& host : *wish.hosts) {
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(std::move(host));
  }
  wish.hosts = std::move(hosts);
  wish.now = ca.begin() + limits::kCertificateBackdate;
  wish.life = std::chrono::duration_cast<Millis>(ca.end() - wish.now);
  return wish;
}

// Of one that we do not replace.
FileResult<std::string> WarningOf(const PodCa& ca, const CaWish& wish,
                                  const std::string& directory) {
  const std::string file = CaCertificatePath(directory);
  if (ca.end() <= wish.now) return Unusable(file, "has expired; put a newer one in its place");
  if (const std::string host = FirstForbidden(ca, wish); !host.empty()) {
    return Unusable(file, "may not sign for " + host +
                              ", which the policy intercepts: its name constraints forbid that; "
                              "mount another CA, or take `intercept` from that backend");
  }
  return IsEnding(ca, wish.now) ? file + " ends soon; put a newer one in its place" : std::string();
}

FileResult<void> MakeDirectory(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::create_directories(directory, error)) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  if (error) return std::unexpected("cannot create " + directory + ": " + error.message());
  return {};
}

}  // namespace

std::string_view WordFor(CaState state) {
  switch (state) {
    case CaState::kMade:
      return "was made";
    case CaState::kRenewed:
      return "was renewed";
    case CaState::kWidened:
      return "was made anew for further hosts";
    default:
      return "is there";
  }
}

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::string CaCertificatePath(const std::string& directory) { return directory + "/ca.crt"; }
std::string CaKeyPath(const std::string& directory) { return directory + "/ca.key"; }

FileResult<std::shared_ptr<const PodCa>> ReadCa(const std::string& directory) {
  const std::string path = CaCertificatePath(directory);
  const auto certificate = ReadInputFile(path, limits::kBundleBytesMax);
  if (!certificate) {
    return std::unexpected(certificate.error() + "; make a CA with: recourse ca init " + directory);
  }
  auto key = ReadPrivateFile(CaKeyPath(directory), limits::kCaFileBytesMax);
  if (!key) return std::unexpected(key.error());
  auto ca = PodCa::Read(*certificate, *key);
  Wipe(*key);
  if (!ca) return Unusable(path, ca.error());
  return *ca;
}

FileResult<KeptCa> KeepCa(const std::string& directory, const CaWish& wish, Random& random) {
  KeptCa kept;
  const std::string certificate = CaCertificatePath(directory), key = CaKeyPath(directory);
  if (!Exists(certificate)) {
    if (auto made = MakeDirectory(directory); !made) return std::unexpected(made.error());
    if (!Exists(key)) {
      if (auto made = MakeKey(key); !made) return std::unexpected(made.error());
    }
    if (auto made = MakeCertificate(directory, wish, random); !made) {
      return std::unexpected(made.error());
    }
    kept.state = CaState::kMade;
  }
  auto ca = ReadCa(directory);
  if (!ca) return std::unexpected(ca.error());
  kept.ca = *ca;
  const CaState need = Need(*kept.ca, wish);
  if (need == CaState::kFound) return kept;
  if (kept.ca->is_ours() && ::access(directory.c_str(), W_OK) == 0) {
    kept.has_further_hosts = !FirstForbidden(*kept.ca, wish).empty();
    const CaWish anew = need == CaState::kWidened ? Widened(*kept.ca, wish) : wish;
    if (auto made = MakeCertificate(directory, anew, random); !made) {
      return std::unexpected(made.error());
    }
    auto again = ReadCa(directory);
    if (!again) return std::unexpected(again.error());
    kept.ca = *again;
    kept.state = need;
    return kept;
  }
  auto warning = WarningOf(*kept.ca, wish, directory);
  if (!warning) return std::unexpected(warning.error());
  kept.warning = *warning;
  return kept;
}

}  // namespace recourse
