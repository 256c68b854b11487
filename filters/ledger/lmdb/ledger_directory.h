// The directory a ledger lives in: created private, held by one process at a time.
#pragma once

#include <expected>
#include <memory>
#include <string>

namespace recourse {

class LedgerDirectory {
 public:
  // Creates the directory (mode 0700) when missing and takes its lock for the life of the object.
  // Fails with a line for people, naming the process that holds it.
  static std::expected<std::unique_ptr<LedgerDirectory>, std::string> Lock(
      const std::string& directory);
  ~LedgerDirectory();
  LedgerDirectory(const LedgerDirectory&) = delete;
  LedgerDirectory& operator=(const LedgerDirectory&) = delete;

  // Whether a ledger was ever created here, by the marker that Seal leaves.
  bool is_sealed() const;
  // Makes the files' names durable and remembers that a ledger exists here.
  std::expected<void, std::string> Seal();
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }
  // Size of a file in the directory; 0 when it does not exist.
  std::uint64_t FileBytes(const std::string& name) const;
  std::expected<void, std::string> Remove(const std::string& name);
  // An empty subdirectory of that name, whatever was there before.
  std::expected<void, std::string> Renew(const std::string& name);

 private:
  LedgerDirectory(std::string path, int lock_file)
      : path_(std::move(path)), lock_file_(lock_file) {}

  const std::string path_;
  const int lock_file_;
};

}  // namespace recourse
