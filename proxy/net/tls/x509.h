// Certificates of our own making, over OpenSSL: what pod_ca and leaf_minter have in common.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/base/crypto/openssl_objects.h"
#include "proxy/base/random.h"

namespace recourse {

// A new P-256 key. Null when OpenSSL fails.
KeyPtr NewP256Key();

// What a new certificate says of itself, besides its extensions.
struct CertificateFacts {
  std::string organization, common_name;  // empty: left out
  WallTime not_before, not_after;
};

// Version 3, a random serial number of 127 bits, for that key, without issuer and signature. Null
// when OpenSSL fails.
X509Ptr NewCertificate(const CertificateFacts& facts, EVP_PKEY& key, Random& random);

// Adds an extension in the words of OpenSSL's configuration (x509v3_config(5)). False: it fails.
bool AddExtension(X509& certificate, X509& issuer, int nid, const std::string& value);

// The end of its validity; the epoch when that cannot be read.
WallTime EndOf(const X509& certificate);
WallTime BeginOf(const X509& certificate);

// Every certificate in the text, in order; other blocks are left out.
std::vector<X509Ptr> CertificatesIn(std::string_view pem);
std::string ToPem(X509& certificate);

// The characters of a string that a certificate holds.
std::string Asn1Text(const ASN1_STRING& text);

// The name for subjectAltName, "DNS:a.example" or "IP:::1". Empty: neither a name that a
// certificate may hold nor an address.
std::string AltNameOf(const std::string& host);

}  // namespace recourse
