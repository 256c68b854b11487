// What agents have to trust: the system's CAs and the pod's own, in the forms that clients read.
#pragma once

#include <string>
#include <string_view>

#include "proxy/net/pod_ca.h"
#include "proxy/server/files.h"

namespace recourse {

enum class BundleForm : std::uint8_t {
  kPem,
  kJks,  // a Java key store, which Java reads without a password
};

// That a file of this name is expected to have: kJks for *.jks.
BundleForm FormOfFile(std::string_view path);

// Where systems keep the CAs that they trust; empty: nowhere known.
std::string FindSystemBundle();

// The certificates of the file ("none": none), and the CA. Fails when the file has none.
FileResult<std::string> ReadAndBundle(const std::string& system_file, const PodCa& ca,
                                      BundleForm form, WallTime now);

// Certificates as a Java key store of type JKS, under the aliases "ca-1", "ca-2", ... Its digest is
// made with the usual "changeit": a key store without private keys has nothing to hide.
std::string JavaKeyStore(const std::vector<X509Ptr>& certificates, WallTime now);

}  // namespace recourse
