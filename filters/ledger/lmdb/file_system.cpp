#include "filters/ledger/lmdb/file_system.h"

#include <algorithm>
#include <iterator>

namespace recourse {
namespace {

struct Row {
  std::uint64_t magic;
  FileSystemFacts facts;
};

constexpr std::string_view kRemote =
    "it is remote: its mapped files and locks are not those of one machine";
constexpr std::string_view kStacked =
    "it is the container's own layer and is gone with the container";
constexpr std::string_view kUserSpace =
    "a program stands between the process and the disk, and what it syncs is not known";

// statfs(2) lists the numbers.
constexpr Row kRows[] = {
    {0xef53, {FileSystemFit::kKeeps, "ext4", {}}},
    {0x58465342, {FileSystemFit::kKeeps, "xfs", {}}},
    {0x9123683e, {FileSystemFit::kKeeps, "btrfs", {}}},
    {0x01021994,
     {FileSystemFit::kForgets, "tmpfs", "it is memory: a restart of the machine forgets it"}},
    {0x794c7630, {FileSystemFit::kRefused, "overlay", kStacked}},
    {0x61756673, {FileSystemFit::kRefused, "aufs", kStacked}},
    {0x6969, {FileSystemFit::kRefused, "nfs", kRemote}},
    {0x517b, {FileSystemFit::kRefused, "smb", kRemote}},
    {0xfe534d42, {FileSystemFit::kRefused, "smb2", kRemote}},
    {0xff534d42, {FileSystemFit::kRefused, "cifs", kRemote}},
    {0x00c36400, {FileSystemFit::kRefused, "ceph", kRemote}},
    {0x01021997, {FileSystemFit::kRefused, "9p", kRemote}},
    {0x0bd00bd0, {FileSystemFit::kRefused, "lustre", kRemote}},
    {0x47504653, {FileSystemFit::kRefused, "gpfs", kRemote}},
    {0x65735546, {FileSystemFit::kRefused, "fuse", kUserSpace}},
};

}  // namespace

FileSystemFacts JudgeFileSystem(std::uint64_t magic) {
  const auto* const found = std::find_if(std::begin(kRows), std::end(kRows),
                                         [magic](const Row& row) { return row.magic == magic; });
  if (found != std::end(kRows)) return found->facts;
  return {FileSystemFit::kRefused, {}, "nothing is known about what it keeps"};
}

}  // namespace recourse
