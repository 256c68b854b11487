// What a disk may hold after the power went away, according to a shim's log.
//
// Kept for sure: what a sync that had returned covered. Everything else - each 512-byte sector of a
// later write, the length of a file, each name that was made, moved or removed since its directory
// was synced - is there or not, each for itself.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/power_loss/shim_log.h"

namespace recourse {

struct ShimEntry {
  ShimRecord record;
  std::string_view path, second_path, data;
  std::uint64_t end = 0;  // where it ends in the log
};

// A shim's log in memory.
class ShimLog {
 public:
  static ShimLog Load(const std::string& path);
  // Goes on with the log of the next process over the same files.
  void Add(const std::string& path);
  const std::vector<ShimEntry>& entries() const { return entries_; }

 private:
  std::list<std::string> bytes_;
  std::vector<ShimEntry> entries_;
};

// Which syncs the disk honours; anything less than all is a disk, or a mode of LMDB, that lies.
struct Trust {
  bool fdatasync = true;  // false: as MDB_NOSYNC
  bool dsync = true;      // false: as MDB_NOMETASYNC
};

class DiskModel {
 public:
  explicit DiskModel(Trust trust = {}) : trust_(trust) {}
  // Begins with what is in a directory, all of it durable. Before the first Apply.
  void Begin(const std::string& directory);
  void Apply(const ShimEntry& entry);
  // Makes `directory` a disk that may be found after a power cut now.
  void WriteImage(const std::string& directory, std::mt19937_64& random) const;

 private:
  struct Write {
    std::uint64_t offset = 0;
    std::string_view data;
    bool is_durable = false;
  };
  struct File {
    std::string durable;
    std::vector<Write> pending;
    std::size_t covered = 0;  // of `pending`, by the sync that runs
  };
  struct Name {
    bool is_directory = false;
    std::uint64_t inode = 0;
  };
  using Names = std::map<std::string, Name>;
  struct NameChange {
    ShimKind kind = ShimKind::kCreate;
    std::string path, second_path;
    Name name;
    bool is_durable = false;
  };

  static void Change(Names& names, const NameChange& change);
  void AddChange(const ShimEntry& entry);
  void SyncFile(File& file, std::size_t count);
  void SyncNames(std::string_view directory);
  std::string Content(std::uint64_t inode, std::mt19937_64& random) const;

  const Trust trust_;
  std::map<std::uint64_t, File> files_;
  Names durable_, current_;
  std::vector<NameChange> changes_;
  std::map<std::string, std::size_t> covered_changes_;  // by directory, while it is synced
};

}  // namespace recourse
