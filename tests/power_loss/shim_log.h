// What storage_shim.cpp writes down of a process's storage calls: records, end to end.
#pragma once

#include <cstdint>

namespace recourse {

enum class ShimKind : std::uint8_t {
  kCreate = 1,  // path, inode; the file is empty
  kWrite,       // inode, offset, data; written before the call is made
  kDsyncEnd,    // inode: the newest write, through a descriptor with O_DSYNC, has returned
  kSyncBegin,   // inode; path when it is a directory
  kSyncEnd,     // likewise, returned 0
  kRename,      // path, second path
  kUnlink,      // path
  kMakeDirectory,
  kMark,  // offset: a number of the driver's
};

struct ShimRecord {
  ShimKind kind = ShimKind::kMark;
  bool is_dsync = false;
  std::uint16_t path_bytes = 0;
  std::uint16_t second_path_bytes = 0;
  std::uint16_t unused = 0;
  std::uint64_t inode = 0;
  std::uint64_t offset = 0;
  std::uint64_t data_bytes = 0;
  // then: path, second path, data
};
static_assert(sizeof(ShimRecord) == 32);

}  // namespace recourse

extern "C" {
// Exported by the shim. Records from now on what happens below `root` into the file `log`; null
// ends that. Not thread-safe.
void shim_record(const char* root, const char* log);
// Appends a mark: whatever the driver saw before this call stands before it in the log.
void shim_mark(unsigned long number);
}
