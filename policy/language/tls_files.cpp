#include "policy/language/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "proxy/base/crypto/openssl_objects.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

X509Ptr FirstCertificate(BIO* file) {
  return X509Ptr(PEM_read_bio_X509_AUX(file, nullptr, &NoPassphrase, nullptr));
}

std::string CannotBeRead(const std::string& file, int error) {
  return file + " cannot be read: " + std::strerror(error);
}

}  // namespace

std::string CertificateFileProblem(const std::string& file) {
  const BioPtr bio(BIO_new_file(file.c_str(), "r"));
  const int error = errno;
  ERR_clear_error();
  if (bio == nullptr) return CannotBeRead(file, error);
  const X509Ptr first = FirstCertificate(bio.get());
  ERR_clear_error();
  return first == nullptr ? file + " holds no certificate in PEM form" : std::string();
}

std::string KeyFileProblem(const std::string& file, const std::string& certificate_file) {
  const BioPtr bio(BIO_new_file(file.c_str(), "r"));
  const int error = errno;
  ERR_clear_error();
  if (bio == nullptr) return CannotBeRead(file, error);
  const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) return file + " holds no private key in PEM form without passphrase";
  const BioPtr chain(BIO_new_file(certificate_file.c_str(), "r"));
  const X509Ptr first = chain == nullptr ? nullptr : FirstCertificate(chain.get());
  const bool fits = first != nullptr && X509_check_private_key(first.get(), key.get()) == 1;
  ERR_clear_error();
  return fits ? std::string()
              : file + " is the key of another certificate than " + certificate_file;
}

std::string SecretFileProblem(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return error ? CannotBeRead(file, error.value()) : file + " is not a regular file";
  }
  errno = 0;
  std::ifstream in(file);
  std::string text(limits::kSecretFileBytesMax + 1, '\0');
  if (!in) return CannotBeRead(file, errno);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.gcount() > static_cast<std::streamsize>(limits::kSecretFileBytesMax)) {
    return file + " is larger than 4 KiB";
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  text = text.substr(0, text.find_first_of("\r\n"));
  if (text.empty()) return file + " is empty; put the secret in its first line";
  return IsFieldValue(text) ? std::string() : file + " has control characters in its first line";
}

}  // namespace recourse
