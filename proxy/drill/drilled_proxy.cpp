#include "proxy/drill/drilled_proxy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "proxy/base/check.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/drill/drill_plan.h"
#include "proxy/process/runtime.h"

namespace recourse {
namespace {

constexpr std::size_t kConnectionsMax = 64;  // one agent and one operator
constexpr std::string_view kStruck = "struck", kReady = "ready";

void Tell(int fd, std::string line) {
  line.push_back('\n');
  [[maybe_unused]] const auto written = ::write(fd, line.data(), line.size());
}

std::string LineOf(const std::vector<RowNote>& notes) {
  std::string line;
  for (const RowNote& note : notes) {
    line += fmt::format("{} {} {} ", note.operation, note.undoes, note.phase);
  }
  return line;
}

// Counts, tells, and ends the process where it is to be killed.
struct Strike {
  int notes;
  KillAt at;
  std::size_t commit = 0;

  void Before(const std::vector<RowNote>&) {
    ++commit;
    if (commit == at.commit && at.edge == KillAt::Edge::kBefore) Hit();
  }
  void After(const std::vector<RowNote>& rows) {
    Tell(notes, LineOf(rows));
    if (commit == at.commit && at.edge == KillAt::Edge::kAfter) Hit();
  }
  void Hit() const {
    Tell(notes, std::string(kStruck));
    ::kill(::getpid(), SIGKILL);
  }
};

void OutputTo(const std::string& file) {
  const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
}

[[noreturn]] void RunAsProxy(const DrilledProxyParts& parts, std::uint16_t port, int notes) {
  Config config;
  config.policy = parts.policy.path;
  config.data = parts.data;
  config.listen = config.admin = config.probes = parts.address + ":0";
  config.operators = parts.policy.operators_file;
  config.access_log = "off";
  config.ledger_bytes_max = limits::kDrillLedgerBytes;
  config.bounds.connections_max = kConnectionsMax;
  config.unsafe_fs = true;  // a kill loses nothing that was written, whatever the file system
  config.bounds.call_memory_bytes = limits::kCallMemoryBytes;  // no look at limits of memory
  config.bounds.head_timeout = config.bounds.body_timeout = config.bounds.idle_timeout =
      config.bounds.send_timeout = config.bounds.stream_timeout = limits::kDrillPatience;
  SetLogLevel(LogLevel::kWarn);
  Strike strike{notes, parts.kill};
  LoadedPolicy ready = parts.policy.loaded;  // of this process alone, since the fork
  const DrillOverrides rehearsal{
      .clock = parts.clock,
      .speed = limits::kDrillSpeed,
      .load =
          [&](const PolicySources& sources, TlsFiles) {
            const bool is_ready = ready.ok() && sources.files == parts.policy.files;
            LoadedPolicy loaded = is_ready ? std::exchange(ready, LoadedPolicy())
                                           : LoadPolicyFiles(sources, TlsFiles::kIgnore);
            if (loaded.ok()) AdaptPolicy(*loaded.policy, port, parts.deadline);
            return loaded;
          },
      .log =
          [&](std::unique_ptr<EventLog> log) {
            return WatchCommits(std::move(log), {[&](const auto& rows) { strike.Before(rows); },
                                                 [&](const auto& rows) { strike.After(rows); }});
          },
      .ready =
          [&](std::uint16_t agents, std::uint16_t admin) {
            Tell(notes, fmt::format("{} {} {}", kReady, agents, admin));
          }};
  ::_exit(RunProxy(config, &rehearsal));
}

// In the child. Waits for the port; without one there is nothing to run.
[[noreturn]] void WaitAndRun(const DrilledProxyParts& parts, pid_t parent, int start, int notes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  OutputTo(parts.log_file);
  std::uint16_t port = 0;
  if (::read(start, &port, sizeof port) != sizeof port) ::_exit(0);
  ::close(start);
  RunAsProxy(parts, port, notes);
}

}  // namespace

DrilledProxy::DrilledProxy(const DrilledProxyParts& parts) {
  std::array<int, 2> start{}, notes{};
  RC_CHECK(::pipe2(start.data(), O_CLOEXEC) == 0);
  // A proxy that nobody listens to goes on: what is told serves people only.
  RC_CHECK(::pipe2(notes.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  RC_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    ::close(start[1]);
    ::close(notes[0]);
    WaitAndRun(parts, parent, start[0], notes[1]);
  }
  ::close(start[0]);
  ::close(notes[1]);
  start_ = start[1];
  notes_ = notes[0];
}

DrilledProxy::~DrilledProxy() {
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(start_);
  ::close(notes_);
}

void DrilledProxy::Start(std::uint16_t backend_port) {
  RC_CHECK(::write(start_, &backend_port, sizeof backend_port) == sizeof backend_port);
}

std::optional<std::string> DrilledProxy::Ended() {
  int status = 0;
  if (ended_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return ended_;
  ReadNotes();
  ended_ = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                               : fmt::format("exit code {}", WEXITSTATUS(status));
  return ended_;
}

std::optional<DrilledProxy::Ports> DrilledProxy::AwaitPorts(Millis patience) {
  pollfd notes{notes_, POLLIN, 0};  // nobody else has the other end: it ends with the process
  if (!ports_ && ::poll(&notes, 1, static_cast<int>(patience.count())) == 1) ReadNotes();
  return ports_;
}

const std::vector<std::vector<RowNote>>& DrilledProxy::Commits() {
  ReadNotes();
  return commits_;
}

void DrilledProxy::ReadNotes() {
  std::array<char, 4096> bytes{};
  for (ssize_t size = 0; (size = ::read(notes_, bytes.data(), bytes.size())) > 0;) {
    unread_.append(bytes.data(), static_cast<std::size_t>(size));
  }
  for (auto end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
    const std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    if (line == kStruck) {
      is_struck_ = true;
      continue;
    }
    std::vector<std::string> words;
    for (std::size_t at = 0; at < line.size();) {
      const auto space = std::min(line.find(' ', at), line.size());
      words.push_back(line.substr(at, space - at));
      at = space + 1;
    }
    if (words.size() == 3 && words.front() == kReady) {
      ports_ = {std::move(words[1]), std::move(words[2])};
      continue;
    }
    const auto number = [](const std::string& word) {
      std::uint64_t value = 0;
      std::from_chars(word.data(), word.data() + word.size(), value);
      return value;
    };
    std::vector<RowNote>& commit = commits_.emplace_back();
    for (std::size_t i = 0; i + 2 < words.size(); i += 3) {
      commit.push_back({number(words[i]), number(words[i + 1]), words[i + 2]});
    }
  }
}

}  // namespace recourse
