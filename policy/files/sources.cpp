#include "policy/files/sources.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

namespace fs = std::filesystem;

constexpr int kReadsMax = 8;

PolicyProblem FileProblem(const std::string& file, std::string message) {
  PolicyProblem problem;
  problem.file = file;
  problem.message = std::move(message);
  return problem;
}

PolicyProblem SystemProblem(const std::string& file, std::string_view wanted) {
  std::string message = std::string("cannot be read: ") + std::strerror(errno);
  if (errno == ENOENT || errno == ENOTDIR) {
    message.append("; ").append(wanted);
  } else if (errno == EACCES || errno == EPERM) {
    message += "; let the user that runs this (uid " + std::to_string(::geteuid()) + ") read it";
  }
  return FileProblem(file, std::move(message));
}

// A volume of a ConfigMap has mode 0777 and is mounted read-only.
bool IsReadOnlyMount(const std::string& path) {
  struct statvfs info{};
  return statvfs(path.c_str(), &info) == 0 && (info.f_flag & ST_RDONLY) != 0;
}

class OpenFile {
 public:
  // O_NONBLOCK: a pipe in the place of the file must not hold us.
  explicit OpenFile(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// False: errno says why.
bool ReadAll(int fd, std::size_t expected, std::string& text) {
  text.reserve(std::min(expected, limits::kPolicyFileBytesMax) + 1);
  char buffer[64 * 1024];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0) return false;
    text.append(buffer, static_cast<std::size_t>(got));
    if (got == 0 || text.size() > limits::kPolicyFileBytesMax) return true;
  }
}

// What is judged is what is read: both by one descriptor.
void ReadFile(const std::string& path, std::string_view wanted, PolicySources& sources) {
  const OpenFile file(path);
  struct stat info{};
  if (file.fd() < 0 || fstat(file.fd(), &info) != 0) {
    sources.problems.push_back(SystemProblem(path, wanted));
    return;
  }
  if (!S_ISREG(info.st_mode)) {
    sources.problems.push_back(FileProblem(path, "is not a regular file"));
    return;
  }
  if ((info.st_mode & S_IWOTH) != 0 && !IsReadOnlyMount(path)) {
    sources.problems.push_back(FileProblem(
        path, "everyone may write to this file, so nothing in it can be trusted; chmod o-w"));
    return;
  }
  PolicySource source{path, {}};
  if (!ReadAll(file.fd(), static_cast<std::size_t>(info.st_size), source.text)) {
    sources.problems.push_back(SystemProblem(path, wanted));
    return;
  }
  if (source.text.size() > limits::kPolicyFileBytesMax) {
    sources.problems.push_back(FileProblem(path, "the file is larger than 10 MiB"));
    return;
  }
  sources.files.push_back(std::move(source));
}

bool IsPolicyFile(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string extension = path.extension().string();
  return !name.starts_with('.') && (extension == ".yaml" || extension == ".yml");
}

// A link may lead anywhere inside the directory, as those of a ConfigMap volume do, and nowhere
// else.
bool IsInside(const fs::path& file, const fs::path& directory) {
  std::error_code ec;
  const fs::path real = fs::canonical(file, ec);
  if (ec) return false;
  const fs::path root = fs::canonical(directory, ec);
  if (ec) return false;
  const auto [end, rest] = std::mismatch(root.begin(), root.end(), real.begin(), real.end());
  return end == root.end();
}

// Whoever may write to the directory of a file may replace the file; a sticky one keeps others from
// that, but not from adding files.
void JudgeDirectory(const std::string& path, mode_t harmless, PolicySources& sources) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || (info.st_mode & S_IWOTH) == 0) return;
  if ((info.st_mode & harmless) != 0 || IsReadOnlyMount(path)) return;
  sources.problems.push_back(FileProblem(path, "everyone may write to this directory; chmod o-w"));
}

void ReadDirectory(const std::string& path, PolicySources& sources) {
  std::error_code ec;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec)) {
    if (IsPolicyFile(it->path())) files.push_back(it->path());
  }
  if (ec) sources.problems.push_back(FileProblem(path, "cannot be listed: " + ec.message()));
  JudgeDirectory(path, 0, sources);
  std::sort(files.begin(), files.end());
  std::size_t bytes = 0;
  for (const fs::path& file : files) {
    if (!IsInside(file, path)) {
      sources.problems.push_back(
          FileProblem(file.string(), "is a link that leads out of the directory"));
      continue;
    }
    const std::size_t before = sources.files.size();
    ReadFile(file.string(), kPolicyWanted, sources);
    bytes += sources.files.size() == before ? 0 : sources.files.back().text.size();
    if (bytes > limits::kPolicyFileBytesMax) {
      sources.problems.push_back(FileProblem(path, "the files are larger than 10 MiB together"));
      return;
    }
  }
  if (files.empty()) {
    sources.problems.push_back(FileProblem(path, "the directory has no *.yaml file"));
  }
}

void ReadOneFile(const std::string& path, std::string_view wanted, PolicySources& sources) {
  const fs::path parent = fs::path(path).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  std::error_code ec;
  JudgeDirectory(directory, S_ISVTX, sources);
  if (fs::is_symlink(path, ec) && fs::exists(path, ec) && !IsInside(path, directory)) {
    sources.problems.push_back(
        FileProblem(path, "is a link that leads out of its directory; name the file it leads to"));
    return;
  }
  ReadFile(path, wanted, sources);
}

bool AreSame(const PolicySources& a, const PolicySources& b) {
  const auto text = [](const PolicyProblem& problem) { return problem.ToString(); };
  return a.files == b.files && std::ranges::equal(a.problems, b.problems, {}, text, text);
}

}  // namespace

PolicySources ReadPolicyFiles(const std::string& path, std::string_view wanted) {
  PolicySources sources;
  std::error_code ec;
  if (fs::is_directory(path, ec)) {
    ReadDirectory(path, sources);
  } else {
    ReadOneFile(path, wanted, sources);
  }
  return sources;
}

PolicySources ReadPolicyTwice(const std::string& path, std::string_view wanted) {
  PolicySources last = ReadPolicyFiles(path, wanted);
  for (int reads = 1; reads < kReadsMax; ++reads) {
    PolicySources next = ReadPolicyFiles(path, wanted);
    const bool same = AreSame(last, next);
    last = std::move(next);
    if (same) break;
  }
  return last;
}

Digest DigestOf(const std::vector<PolicySource>& files) {
  std::string all;
  for (const PolicySource& file : files) AppendPart(all, file.text);
  return Sha256(all);
}

}  // namespace recourse
