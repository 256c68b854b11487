// What agents have to trust: the system's CAs and the pod's own, in the forms that clients read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/files.h"
#include "proxy/net/tls/pod_ca.h"

namespace recourse {

enum class BundleForm : std::uint8_t {
  kPem,
  kJks,  // a Java key store, which Java reads without a password
};

// That a file of this name is expected to have: kJks for *.jks.
BundleForm FormOfFile(std::string_view path);

using Files = std::vector<std::string>;

// What is trusted here without us: the file where systems keep their CAs, and those of `named` that
// can be read; none twice.
Files FindSystemBundles(const Files& named);

// The certificates of the files ("none": none), and the CA. Those in `written` are made by us, so
// they are left out. Fails when there is no file, or a file has no certificates.
FileResult<std::string> ReadAndBundle(const Files& system_files, const Files& written,
                                      const PodCa& ca, BundleForm form, WallTime now);

// Certificates as a Java key store of type JKS, under the aliases "ca-1", "ca-2", ... Its digest is
// made with the usual "changeit": a key store without private keys has nothing to hide.
std::string JavaKeyStore(const std::vector<X509Ptr>& certificates, WallTime now);

}  // namespace recourse
