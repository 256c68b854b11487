// What code over OpenSSL shares: owners of its objects, bytes as it takes them, reading PEM.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string_view>

namespace recourse {

// The deleter that calls one function of OpenSSL, e.g. OpensslFree<BN_free>.
template <auto kFree>
struct OpensslFree {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BioPtr = std::unique_ptr<BIO, OpensslFree<BIO_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, OpensslFree<X509_free>>;
using DigestContextPtr = std::unique_ptr<EVP_MD_CTX, OpensslFree<EVP_MD_CTX_free>>;

// What OpenSSL takes for a text.
inline const unsigned char* OpensslBytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// A callback for PEM: a key file with a passphrase must fail, not ask the terminal.
inline int NoPassphrase(char*, int, int, void*) { return -1; }

}  // namespace recourse
