#include "proxy/redirect/pod_networks.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include "proxy/redirect/nft.h"

namespace recourse {
namespace {

constexpr std::size_t kCommandMax = 64 * 1024;
constexpr std::string_view kWords[] = {"redirect", "await"};

class File {
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

  // Of a file of /proc/PID/ns.
  std::optional<ino_t> Namespace() const {
    struct stat told{};
    if (fd_ < 0 || ::fstat(fd_, &told) != 0) return std::nullopt;
    return told.st_ino;
  }

 private:
  const int fd_;
};

std::string NetworkOf(std::string_view process) { return fmt::format("/proc/{}/ns/net", process); }

std::vector<std::string> CommandOf(pid_t pid) {
  const File file(fmt::format("/proc/{}/cmdline", pid));
  std::string bytes(kCommandMax, '\0');
  const ssize_t size = file.fd() < 0 ? -1 : ::read(file.fd(), bytes.data(), bytes.size());
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  std::vector<std::string> words;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\0', at), bytes.size());
    words.push_back(bytes.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::optional<WaitingProcess> WaitingAs(pid_t pid) {
  std::vector<std::string> words = CommandOf(pid);
  constexpr std::size_t kBefore = 1 + std::size(kWords);
  if (words.size() < kBefore || words[1] != kWords[0] || words[2] != kWords[1]) return std::nullopt;
  const std::string_view program = words[0];
  if (program.substr(program.rfind('/') + 1) != "recourse") return std::nullopt;
  words.erase(words.begin(), words.begin() + kBefore);
  return WaitingProcess{.pid = pid, .options = std::move(words)};
}

std::vector<WaitingProcess> FindWaiting() {
  std::vector<WaitingProcess> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  while (const dirent* const entry = folder ? ::readdir(folder.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [after, ec] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (ec != std::errc() || after != name.data() + name.size()) continue;
    if (auto waiting = WaitingAs(pid)) found.push_back(std::move(*waiting));
  }
  return found;
}

// In the network of another while it lives; of this thread alone.
class Visit {
 public:
  explicit Visit(const File& network)
      : home_(NetworkOf("thread-self")), failed_(::setns(network.fd(), CLONE_NEWNET) != 0) {}
  ~Visit() {
    // Elsewhere nothing here may go on.
    if (!failed_ && ::setns(home_.fd(), CLONE_NEWNET) != 0) ::abort();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  bool failed() const { return failed_; }

 private:
  const File home_;
  const bool failed_;
};

}  // namespace

std::vector<std::string> PodNetworks::Look() {
  std::map<pid_t, std::string> told;
  std::vector<std::string> news;
  for (const WaitingProcess& waiting : FindWaiting()) {
    std::string said = Serve(waiting);
    const auto before = told_.find(waiting.pid);
    if (before == told_.end() || before->second != said) news.push_back(said);
    told.emplace(waiting.pid, std::move(said));
  }
  told_ = std::move(told);
  return news;
}

std::string PodNetworks::Serve(const WaitingProcess& waiting) const {
  const std::string who = fmt::format("process {}", waiting.pid);
  const std::expected<RedirectRules, std::string> rules = parse_(waiting.options);
  if (!rules) return fmt::format("{}: {}", who, rules.error());
  const File network(NetworkOf(std::to_string(waiting.pid)));
  const std::optional<ino_t> asked = network.Namespace();
  // The number may be another's by now.
  const std::optional<WaitingProcess> again = WaitingAs(waiting.pid);
  if (!asked || !again || again->options != waiting.options) {
    return fmt::format("{}: its network cannot be opened: {}", who, std::strerror(errno));
  }
  if (asked == File(NetworkOf("self")).Namespace() || asked == File(NetworkOf("1")).Namespace()) {
    return fmt::format("{}: it is in the network of the machine, which is left alone", who);
  }
  const Visit visit(network);
  if (visit.failed()) {
    return fmt::format("{}: its network cannot be entered: {}", who, std::strerror(errno));
  }
  const std::expected<void, std::string> applied = ApplyWithNft(RenderNewRedirectRules(*rules));
  if (applied) {
    return fmt::format("{}: connections to {} go to port {}, but for those of user {}", who,
                       WordsForRedirected(*rules), rules->port, rules->uid);
  }
  if (applied.error().find("File exists") != std::string::npos) {
    return fmt::format("{}: its network has rules, which stay", who);
  }
  return fmt::format("{}: {}", who, applied.error());
}

}  // namespace recourse
