#include "proxy/redirect/nft.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "proxy/redirect/redirect_rules.h"

namespace recourse {
namespace {

// A file without a name: neither side can wait for the other as with a pipe.
class Paper {
 public:
  Paper() : fd_(::memfd_create("recourse-nft", MFD_CLOEXEC)) {}
  ~Paper() {
    if (fd_ >= 0) ::close(fd_);
  }
  Paper(const Paper&) = delete;
  Paper& operator=(const Paper&) = delete;

  int fd() const { return fd_; }
  bool Write(std::string_view text) {
    return ::pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  }
  std::string Read() const {
    std::array<char, 4096> bytes;
    const ssize_t size = ::pread(fd_, bytes.data(), bytes.size(), 0);
    return size > 0 ? std::string(bytes.data(), static_cast<std::size_t>(size)) : std::string();
  }

 private:
  const int fd_;
};

// An errno, or 0. The script and the answer are its standard input and error.
int Spawn(const char* program, const Paper& in, const Paper& out, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.fd(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.fd(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.fd(), STDERR_FILENO);
  std::string name = "nft", file_flag = "-f", file = "-";
  char* const arguments[] = {name.data(), file_flag.data(), file.data(), nullptr};
  const int failed = ::posix_spawnp(pid, program, &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return failed;
}

}  // namespace

std::expected<void, std::string> ApplyWithNft(const std::string& script) {
  Paper in, out;
  if (in.fd() < 0 || out.fd() < 0 || !in.Write(script)) {
    return std::unexpected(std::string("no memory for the rules: ") + std::strerror(errno));
  }
  pid_t pid = 0;
  int failed = Spawn("nft", in, out, &pid);
  // Which not everybody has on the PATH.
  if (failed == ENOENT) failed = Spawn("/usr/sbin/nft", in, out, &pid);
  if (failed == ENOENT) {
    return std::unexpected(
        "the program nft is missing; install the package nftables, or apply the rules of `recourse "
        "redirect show` from where there is one");
  }
  if (failed != 0) {
    return std::unexpected(std::string("cannot run nft: ") + std::strerror(failed));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return std::unexpected(std::string("nft: ") + std::strerror(errno));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  std::string said = out.Read();
  while (said.ends_with('\n')) said.pop_back();
  if (said.empty()) said = "it ended without a word";
  return std::unexpected("nft could not apply the rules, and nothing was changed: " + said +
                         "\n  " + std::string(AdviceForNft(said)));
}

}  // namespace recourse
