#include "policy/files/jwks_file.h"

#include "policy/files/sources.h"

namespace recourse {

std::expected<bool, std::string> JwksFile::Read() {
  const PolicySources sources = ReadPolicyTwice(path_);
  if (!sources.problems.empty()) {
    return std::unexpected(path_ + ": " + sources.problems.front().message);
  }
  if (sources.files.size() != 1) return std::unexpected(path_ + ": is a directory; name a file");
  const std::string& text = sources.files.front().text;
  const Digest bytes = Sha256(text);
  {
    const std::lock_guard lock(mutex_);
    if (keys_ != nullptr && bytes == bytes_) return false;
  }
  auto keys = ParseJwks(text);
  if (!keys) return std::unexpected(path_ + ": " + keys.error());
  auto read = std::make_shared<const JwkSet>(std::move(*keys));
  const std::lock_guard lock(mutex_);
  keys_.swap(read);
  bytes_ = bytes;
  return true;
}

std::shared_ptr<const JwkSet> JwksFile::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

}  // namespace recourse
