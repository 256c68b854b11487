// The files of a policy as bytes, read so that nobody but their owner can have changed them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/files/problem.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

struct PolicySource {
  std::string name;  // path, as messages name it
  std::string text;
  bool operator==(const PolicySource&) const = default;
};

struct PolicySources {
  std::vector<PolicySource> files;
  std::vector<PolicyProblem> problems;  // files that cannot be read or may not be trusted
};

// What to name instead of a path at which there is nothing.
inline constexpr std::string_view kPolicyWanted =
    "name a policy file or a directory of *.yaml files";

// Reads a file or a directory of *.yaml and *.yml. A file that everyone may write to, a link that
// leads out of the directory and too many bytes (kPolicyFileBytesMax) are problems.
// Blocking. Files that are replaced meanwhile may be read from two states: see ReadPolicyTwice.
PolicySources ReadPolicyFiles(const std::string& path, std::string_view wanted = kPolicyWanted);

// Reads until two reads in a row agree, a few times at most, so that the swap of a ConfigMap's link
// between two of its files is not taken for a policy.
PolicySources ReadPolicyTwice(const std::string& path, std::string_view wanted = kPolicyWanted);

// Of the texts alone, so that a move of the files changes nothing.
Digest DigestOf(const std::vector<PolicySource>& files);

}  // namespace recourse
