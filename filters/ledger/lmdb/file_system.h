// Which file systems may hold a ledger: those that keep what was synced, and that map a file the
// way LMDB needs.
#pragma once

#include <cstdint>
#include <string_view>

namespace recourse {

enum class FileSystemFit : std::uint8_t {
  kKeeps,    // what was synced survives a power cut
  kForgets,  // works, but lives in memory only
  kRefused,  // a remote, stacked or unknown one
};

struct FileSystemFacts {
  FileSystemFit fit = FileSystemFit::kRefused;
  std::string_view name;    // as mount(8) calls it; empty when it is not known
  std::string_view reason;  // what is wrong with it, for people; empty when nothing is
};

// `magic` is statfs(2)'s f_type. Pure.
FileSystemFacts JudgeFileSystem(std::uint64_t magic);

}  // namespace recourse
