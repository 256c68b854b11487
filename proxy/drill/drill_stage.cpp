#include "proxy/drill/drill_stage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "proxy/base/check.h"
#include "proxy/config/files.h"

namespace recourse {
namespace {

// A run and its proxies wait more than they work: one heap for all threads of a process, and one
// CPU for all processes of a run, so that no page is written by each of them alone and no CPU has
// to be told of what another one does.
void BeSmall(std::size_t run) {
  constexpr int kHeapGrowsBytes = 512 * 1024;
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_TOP_PAD, kHeapGrowsBytes);
  cpu_set_t all, one;
  if (::sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return;
  std::size_t left = run % static_cast<std::size_t>(CPU_COUNT(&all));
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all) || left-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

void BeSilent() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
}

// Outlives every process that has the other end of `alive`, and whatever ends those.
[[noreturn]] void RunJanitor(int alive, const std::string& directory) {
  ::setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(number, SIG_IGN);
  BeSilent();
  char byte = 0;
  while (::read(alive, &byte, 1) < 0 && errno == EINTR) {
  }
  std::error_code ec;
  std::filesystem::remove_all(directory, ec);
  ::_exit(0);
}

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::expected<std::unique_ptr<DrillStage>, std::string> DrillStage::Make(const std::string& tmp) {
  std::string directory = tmp + "/recourse-drill-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) {
    return std::unexpected(fmt::format("cannot make a directory in {}: {}; name another with --tmp",
                                       tmp, std::strerror(errno)));
  }
  std::array<int, 2> alive{};
  RC_CHECK(::pipe2(alive.data(), O_CLOEXEC) == 0);
  const pid_t janitor = ::fork();
  RC_CHECK(janitor >= 0);
  if (janitor == 0) {
    ::close(alive[1]);
    RunJanitor(alive[0], directory);
  }
  ::close(alive[0]);
  return std::unique_ptr<DrillStage>(new DrillStage(std::move(directory), janitor, alive[1]));
}

DrillStage::~DrillStage() {
  ::close(alive_);
  ::waitpid(janitor_, nullptr, 0);
}

std::expected<std::string, std::string> DrillStage::CopyPolicy(const PolicySources& sources) const {
  for (std::size_t i = 0; i < sources.files.size(); ++i) {
    auto written = Write(fmt::format("policy/{:04}.yaml", i), sources.files[i].text);
    if (!written) return written;
  }
  return directory_ + "/settings/policy";
}

std::expected<std::string, std::string> DrillStage::Write(const std::string& name,
                                                          const std::string& text) const {
  const std::filesystem::path path = directory_ + "/settings/" + name;
  std::error_code ec;
  std::filesystem::create_directories(path.parent_path(), ec);
  if (auto written = WriteFileAtomically(path, text); !written) {
    return std::unexpected(written.error());
  }
  return path;
}

void DrillCrew::Start(std::size_t run, const std::function<std::string()>& play) {
  std::array<int, 2> pipe{};
  RC_CHECK(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  RC_CHECK(pid >= 0);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    ::close(pipe[0]);
    BeSilent();
    BeSmall(run);
    ::_exit(WriteAll(pipe[1], play()) ? 0 : 1);
  }
  ::close(pipe[1]);
  members_[pid] = {run, pipe[0], {}};
}

std::optional<DrillCrew::Ended> DrillCrew::Next(Millis patience) {
  std::vector<pollfd> fds;
  std::vector<pid_t> pids;
  for (const auto& [pid, member] : members_) {
    fds.push_back({member.pipe, POLLIN, 0});
    pids.push_back(pid);
  }
  if (::poll(fds.data(), fds.size(), static_cast<int>(patience.count())) <= 0) return std::nullopt;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    Member& member = members_.at(pids[i]);
    std::array<char, 65536> bytes{};
    const ssize_t size = ::read(member.pipe, bytes.data(), bytes.size());
    if (size > 0) {
      member.text.append(bytes.data(), static_cast<std::size_t>(size));
      continue;
    }
    Ended ended{member.run, std::move(member.text)};
    ::close(member.pipe);
    ::waitpid(pids[i], nullptr, 0);
    members_.erase(pids[i]);
    return ended;
  }
  return std::nullopt;
}

DrillCrew::~DrillCrew() {
  for (const auto& [pid, member] : members_) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    ::close(member.pipe);
  }
}

}  // namespace recourse
