#include "proxy/base/ed25519.h"

#include <openssl/err.h>
#include <openssl/pem.h>

namespace recourse {
namespace {

struct Free {
  void operator()(BIO* text) const { BIO_free(text); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<EVP_MD_CTX, Free>;
using BioPtr = std::unique_ptr<BIO, Free>;

// A key with a passphrase must fail, not ask the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

template <class Read>
std::expected<EvpKeyPtr, std::string> ReadKey(std::string_view pem, Read read, const char* wanted) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  EvpKeyPtr key(bio == nullptr ? nullptr : read(bio.get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr || EVP_PKEY_id(key.get()) != EVP_PKEY_ED25519) return std::unexpected(wanted);
  return key;
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::expected<EvpKeyPtr, std::string> ReadSigningKey(std::string_view pem) {
  return ReadKey(pem, PEM_read_bio_PrivateKey,
                 "holds no Ed25519 private key in PEM form without passphrase; make one with: "
                 "openssl genpkey -algorithm ed25519");
}

std::expected<EvpKeyPtr, std::string> ReadVerifyingKey(std::string_view pem) {
  return ReadKey(pem, PEM_read_bio_PUBKEY,
                 "holds no Ed25519 public key in PEM form; make it with: openssl pkey -in KEY "
                 "-pubout");
}

std::string SignEd25519(EVP_PKEY& key, std::string_view text) {
  std::string signature(64, '\0');
  std::size_t size = signature.size();
  const ContextPtr context(EVP_MD_CTX_new());
  const bool is_signed =
      context != nullptr &&
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, &key) == 1 &&
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     Bytes(text), text.size()) == 1 &&
      size == signature.size();
  ERR_clear_error();
  return is_signed ? signature : std::string();
}

bool IsSignedEd25519(EVP_PKEY& key, std::string_view text, std::string_view signature) {
  const ContextPtr context(EVP_MD_CTX_new());
  const bool is_good = context != nullptr &&
                       EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, &key) == 1 &&
                       EVP_DigestVerify(context.get(), Bytes(signature), signature.size(),
                                        Bytes(text), text.size()) == 1;
  ERR_clear_error();
  return is_good;
}

}  // namespace recourse
