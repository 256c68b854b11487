// The keys of an issuer of tokens, in a file that may be replaced at any time.
#pragma once

#include <expected>
#include <memory>
#include <mutex>
#include <string>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/crypto/jwk.h"

namespace recourse {

// Thread-safe.
class JwksFile {
 public:
  explicit JwksFile(std::string path) : path_(std::move(path)) {}

  // Reads the file, so that nobody but its owner can have changed it. Fails with a line for people;
  // then the keys of before are used on. True: there are other keys than before. Blocking.
  std::expected<bool, std::string> Read();

  // Those that were read last; null: none ever were.
  std::shared_ptr<const JwkSet> keys() const;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  mutable std::mutex mutex_;
  Digest bytes_{};                      // guarded by mutex_: of the file that keys_ are of
  std::shared_ptr<const JwkSet> keys_;  // guarded by mutex_
};

}  // namespace recourse
