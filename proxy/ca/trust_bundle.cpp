#include "proxy/ca/trust_bundle.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "proxy/base/ca_limits.h"

namespace recourse {
namespace {

constexpr std::array kSystemBundles{
    "/etc/ssl/certs/ca-certificates.crt",  // Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",    // Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",              // SUSE
    "/etc/ssl/cert.pem",                   // Alpine, BSDs
};

void AppendBigEndian(std::string& out, std::uint64_t value, int bytes) {
  for (int at = bytes - 1; at >= 0; --at) out.push_back(static_cast<char>(value >> (8 * at)));
}

void AppendUtf(std::string& out, std::string_view text) {
  AppendBigEndian(out, text.size(), 2);
  out.append(text);
}

std::string Sha1(std::string_view data) {
  std::string digest(20, '\0');
  EVP_Digest(data.data(), data.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
             EVP_sha1(), nullptr);
  return digest;
}

std::string DerOf(X509& certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509(&certificate, &der);
  if (size <= 0) return {};
  std::string text(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  return text;
}

// Whatever the names of one file are.
bool IsIn(const Files& files, const std::string& path) {
  return std::ranges::any_of(files, [&](const std::string& file) {
    std::error_code error;
    return file == path || std::filesystem::equivalent(file, path, error);
  });
}

}  // namespace

BundleForm FormOfFile(std::string_view path) {
  return path.ends_with(".jks") ? BundleForm::kJks : BundleForm::kPem;
}

Files FindSystemBundles(const Files& named) {
  Files found;
  for (const char* const path : kSystemBundles) {
    if (found.empty() && ::access(path, R_OK) == 0) found.emplace_back(path);
  }
  for (const std::string& path : named) {
    if (::access(path.c_str(), R_OK) == 0 && !IsIn(found, path)) found.push_back(path);
  }
  return found;
}

// The format has no description but its implementations: sun.security.provider.JavaKeyStore.
std::string JavaKeyStore(const std::vector<X509Ptr>& certificates, WallTime now) {
  static constexpr std::uint64_t kMagic = 0xfeedfeed, kVersion = 2, kTrusted = 2;
  std::string out;
  AppendBigEndian(out, kMagic, 4);
  AppendBigEndian(out, kVersion, 4);
  AppendBigEndian(out, certificates.size(), 4);
  int number = 0;
  for (const X509Ptr& certificate : certificates) {
    const std::string der = DerOf(*certificate);
    AppendBigEndian(out, kTrusted, 4);
    AppendUtf(out, "ca-" + std::to_string(++number));
    AppendBigEndian(out, static_cast<std::uint64_t>(ToUnixMillis(now)), 8);
    AppendUtf(out, "X.509");
    AppendBigEndian(out, der.size(), 4);
    out.append(der);
  }
  std::string salted;
  for (const char c : std::string_view("changeit")) {
    salted.push_back('\0');  // UTF-16
    salted.push_back(c);
  }
  return out + Sha1(salted + "Mighty Aphrodite" + out);
}

FileResult<std::string> ReadAndBundle(const Files& system_files, const Files& written,
                                      const PodCa& ca, BundleForm form, WallTime now) {
  std::string text;
  std::vector<X509Ptr> trusted;
  if (system_files.empty()) return std::unexpected("the system's CAs are at no known place");
  for (const std::string& file : system_files) {
    if (file == "none" || IsIn(written, file)) continue;
    const std::size_t left =
        limits::kBundleBytesMax - std::min(limits::kBundleBytesMax, text.size());
    const auto system = ReadInputFile(file, left);
    if (!system) return std::unexpected(system.error());
    std::vector<X509Ptr> certificates = CertificatesIn(*system);
    if (certificates.empty()) {
      return std::unexpected(file + " holds no certificates in PEM form");
    }
    std::ranges::move(certificates, std::back_inserter(trusted));
    text += *system;
    if (!text.ends_with('\n')) text.push_back('\n');
  }
  if (form == BundleForm::kPem) return text + ca.Pem();
  for (X509Ptr& own : CertificatesIn(ca.Pem())) trusted.push_back(std::move(own));
  return JavaKeyStore(trusted, now);
}

}  // namespace recourse
