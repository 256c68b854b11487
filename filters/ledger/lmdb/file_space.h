// Disk space ahead of an LMDB file: taken from the file system before it is needed, so that what
// was promised to fit does fit when somebody else has filled the disk meanwhile.
#pragma once

#include <cstdint>

namespace recourse {

// One thread at a time.
class FileSpace {
 public:
  // `file` is LMDB's own descriptor; it outlives the object. Never more than `bytes_max` is taken.
  FileSpace(int file, std::uint64_t bytes_max);
  // The end of what can be written for sure, from the start of the file, when `used` is the end of
  // what LMDB uses. Takes more when less than `need` lies between them; the file's length stays.
  std::uint64_t Secure(std::uint64_t used, std::uint64_t need);
  // The end of what could be taken now.
  std::uint64_t Reachable() const;

 private:
  std::uint64_t FreeOnDisk() const;

  const int file_;
  const std::uint64_t bytes_max_;
  const std::uint64_t step_;
  bool can_allocate_ = true;
  std::uint64_t secured_ = 0;
};

}  // namespace recourse
