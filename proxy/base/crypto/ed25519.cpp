#include "proxy/base/crypto/ed25519.h"

#include <openssl/err.h>
#include <openssl/pem.h>

namespace recourse {
namespace {

template <class Read>
std::expected<KeyPtr, std::string> ReadKey(std::string_view pem, Read read, const char* wanted) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  KeyPtr key(bio == nullptr ? nullptr : read(bio.get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr || EVP_PKEY_id(key.get()) != EVP_PKEY_ED25519) return std::unexpected(wanted);
  return key;
}

}  // namespace

std::expected<KeyPtr, std::string> ReadSigningKey(std::string_view pem) {
  return ReadKey(pem, PEM_read_bio_PrivateKey,
                 "holds no Ed25519 private key in PEM form without passphrase; make one with: "
                 "openssl genpkey -algorithm ed25519");
}

std::expected<KeyPtr, std::string> ReadVerifyingKey(std::string_view pem) {
  return ReadKey(pem, PEM_read_bio_PUBKEY,
                 "holds no Ed25519 public key in PEM form; make it with: openssl pkey -in KEY "
                 "-pubout");
}

std::string SignEd25519(EVP_PKEY& key, std::string_view text) {
  std::string signature(64, '\0');
  std::size_t size = signature.size();
  const DigestContextPtr context(EVP_MD_CTX_new());
  const bool is_signed =
      context != nullptr &&
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, &key) == 1 &&
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     OpensslBytes(text), text.size()) == 1 &&
      size == signature.size();
  ERR_clear_error();
  return is_signed ? signature : std::string();
}

bool IsSignedEd25519(EVP_PKEY& key, std::string_view text, std::string_view signature) {
  const DigestContextPtr context(EVP_MD_CTX_new());
  const bool is_good = context != nullptr &&
                       EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, &key) == 1 &&
                       EVP_DigestVerify(context.get(), OpensslBytes(signature), signature.size(),
                                        OpensslBytes(text), text.size()) == 1;
  ERR_clear_error();
  return is_good;
}

}  // namespace recourse
