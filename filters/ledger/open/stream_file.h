// Which stream of a shared ledger a process has begun, in a file that it holds while it lives:
// whoever holds the file next knows that the process has ended, and need not wait to see it silent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "proxy/base/crypto/hash.h"

namespace recourse {

class StreamFile {
 public:
  // Null where another process holds it, or where locks may be those of another machine;
  // `anywhere`: every file system is one whose locks hold.
  static std::shared_ptr<StreamFile> Hold(const std::string& directory, bool anywhere);
  ~StreamFile();
  StreamFile(const StreamFile&) = delete;
  StreamFile& operator=(const StreamFile&) = delete;

  // This process has begun that stream of that ledger. Gives the one that the process before it
  // had begun last; 0: none, or it is told already.
  std::uint64_t Begin(const Digest& ledger, std::uint64_t stream);

 private:
  explicit StreamFile(int file) : file_(file) {}

  const int file_;
  bool is_first_ = true;
};

}  // namespace recourse
