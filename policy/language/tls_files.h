// Whether the certificate, key and secret files that a policy names can be used.
#pragma once

#include <string>

namespace recourse {

// Empty, or what is wrong with a file that should hold PEM certificates.
std::string CertificateFileProblem(const std::string& file);

// Empty, or what is wrong with a file that should hold the PEM key, without passphrase, of the
// first certificate in `certificate_file`, which is good.
std::string KeyFileProblem(const std::string& file, const std::string& certificate_file);

// Empty, or what is wrong with a file whose first line should be a secret for a field.
std::string SecretFileProblem(const std::string& file);

}  // namespace recourse
