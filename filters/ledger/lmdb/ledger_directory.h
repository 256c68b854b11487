// The directory a ledger lives in: created private, held by one process at a time.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>

namespace recourse {

struct DirectoryRules {
  bool unsafe_fs = false;                                   // accept every file system
  bool create = true;                                       // when it is missing
  std::function<bool(const std::string& why)> try_again{};  // see LmdbLedgerOptions
};

class LedgerDirectory {
 public:
  // Creates the directory (mode 0700) when missing and takes its lock for the life of the object.
  // Refuses a symbolic link, an owner other than this process's, a directory that others may write,
  // a file system that does not keep what was synced, and a directory in use, naming its holder.
  // Fails with a line for people.
  static std::expected<std::unique_ptr<LedgerDirectory>, std::string> Lock(
      const std::string& directory, const DirectoryRules& rules);
  ~LedgerDirectory();
  LedgerDirectory(const LedgerDirectory&) = delete;
  LedgerDirectory& operator=(const LedgerDirectory&) = delete;

  // Whether a ledger was ever created here, by the marker that Seal leaves.
  bool is_sealed() const;
  // The identity the marker holds; empty when there is none.
  std::string SealedIdentity() const;
  // Remembers, durably, that the ledger of this identity was created here. The names of its files
  // are durable before the marker is.
  std::expected<void, std::string> Seal(const std::string& identity);
  // What a marker says that the log came from a backup and that nobody has accepted that yet; empty
  // when there is none.
  std::string Restored() const;
  // Leaves that marker, durably, or takes it away.
  std::expected<void, std::string> MarkRestored(const std::string& text);
  std::expected<void, std::string> AcceptRestoredBackup();
  // The shared ledger that has its rows by now; empty: none. And that marker, durably.
  std::string MovedTo() const;
  std::expected<void, std::string> MarkMoved(const std::string& identity);
  // Makes the names of the files in it durable.
  std::expected<void, std::string> Sync() const;

  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }
  bool Has(const std::string& name) const;
  // Size of a file in the directory; 0 when it does not exist.
  std::uint64_t FileBytes(const std::string& name) const;
  std::uint64_t FreeBytes() const;  // of the file system, for this process; 0 when unknown
  std::expected<void, std::string> Rename(const std::string& from, const std::string& to);
  std::expected<void, std::string> Remove(const std::string& name);  // with what is in it
  // An empty subdirectory of that name, whatever was there before.
  std::expected<void, std::string> Renew(const std::string& name);

 private:
  LedgerDirectory(std::string path, int lock_file)
      : path_(std::move(path)), lock_file_(lock_file) {}

  std::string Line(const char* name) const;
  std::expected<void, std::string> Write(const char* name, const std::string& line);

  const std::string path_;
  const int lock_file_;
};

}  // namespace recourse
