// The ledger's file as an object of its own: ours alone, whole, and still where it was.
#pragma once

#include <sys/types.h>

#include <expected>
#include <memory>
#include <string>

#include "filters/ledger/lmdb/page_check.h"

namespace recourse {

class DataFile {
 public:
  // Takes the file's own lock, which also holds when somebody deletes the directory's lock file.
  // Fails with a line for people when it is no regular file, is writable for others, or is in use.
  static std::expected<std::shared_ptr<const DataFile>, std::string> Open(const std::string& path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  // See CheckPages.
  std::expected<PageFacts, std::string> Check(std::size_t pages_max) const;
  // A commit after the one of number `newest` failed: leaves a note beside the file, as well as
  // that can be done, by which the next start tells it from a commit that was lost.
  void NoteFailedCommit(std::uint64_t newest) const;
  bool HasFailedCommitAfter(std::uint64_t newest) const;
  // Whether the path still leads to this file: what is written into a file that was deleted or
  // replaced is lost with it. Thread-safe.
  bool is_in_place() const;

 private:
  DataFile(std::string path, int file, dev_t device, ino_t inode)
      : path_(std::move(path)), file_(file), device_(device), inode_(inode) {}

  const std::string path_;
  const int file_;
  const dev_t device_;
  const ino_t inode_;
};

// An open-file-description lock: unlike a process lock it is not lost when another descriptor of
// the file is closed, and it works between processes that share a number (two containers).
// False with errno EAGAIN or EACCES when another process has it.
bool TakeFileLock(int file);

// Whether `path` leads to this file. Does not ask for the file's times: since Linux 6.13
// (multigrain timestamps) a write after such a question gives the file times of its own, and asking
// before each commit made each of them write the inode as well, one more round trip to the disk.
bool LeadsTo(const std::string& path, dev_t device, ino_t inode);

}  // namespace recourse
