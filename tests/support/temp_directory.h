// A directory of a test's own: tests of one file run at the same time, in several processes.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace recourse {

class TempDirectory {
 public:
  explicit TempDirectory(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "recourse-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  TempDirectory(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string data() const { return path_ + "/data"; }

 private:
  std::string path_;
};

}  // namespace recourse
