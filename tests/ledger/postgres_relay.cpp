#include "tests/ledger/postgres_relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace recourse {
namespace {

constexpr std::string_view kSocket = "/.s.PGSQL.5432";
// Name of the statement that a batch begins with.
constexpr std::string_view kBatch = "fence_and_head";
// The last messages of a batch, and of an answer outside of a transaction.
constexpr std::string_view kSync("S\0\0\0\4", 5), kIdle("Z\0\0\0\5I", 6);

sockaddr_un AddressOf(const std::string& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory + std::string(kSocket);
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof address.sun_path - 1));
  return address;
}

bool WriteAll(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool ReadUntil(int from, std::string_view end, std::string& bytes) {
  std::vector<char> part(1 << 16);
  while (!bytes.ends_with(end)) {
    const ssize_t got = read(from, part.data(), part.size());
    if (got <= 0) return false;
    bytes.append(part.data(), static_cast<std::size_t>(got));
  }
  return true;
}

std::string ErrorOf(const PostgresRelay::Word& word) {
  const auto field = [](char name, const std::string& value) { return name + value + '\0'; };
  const std::string body = field('S', word.severity) + field('V', word.severity) +
                           field('C', word.sqlstate) + field('M', "as a test wants it") + '\0';
  const std::size_t length = body.size() + 4;
  return std::string("E\0\0", 3) + static_cast<char>(length >> 8) +
         static_cast<char>(length & 255) + body;
}

std::optional<PostgresRelay::Word> Taken(std::mutex& mutex,
                                         std::optional<PostgresRelay::Word>& word) {
  const std::lock_guard lock(mutex);
  return std::exchange(word, std::nullopt);
}

}  // namespace

PostgresRelay::PostgresRelay(std::string server) : server_(std::move(server)) {
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = AddressOf(directory_.path());
  EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(listener_, 8), 0);
  EXPECT_EQ(pipe(stop_), 0);
  thread_ = std::thread([this] { Run(); });
}

PostgresRelay::~PostgresRelay() {
  close(stop_[1]);
  thread_.join();
  close(stop_[0]);
  close(listener_);
}

void PostgresRelay::AnswerNext(Word to_batch) {
  const std::lock_guard lock(mutex_);
  to_batch_ = std::move(to_batch);
}

void PostgresRelay::RefuseNext(std::string sqlstate) {
  const std::lock_guard lock(mutex_);
  to_next_ = {.sqlstate = std::move(sqlstate), .severity = "FATAL"};
}

void PostgresRelay::SetAway(bool is_away) {
  is_away_ = is_away;
  EXPECT_EQ(write(stop_[1], "a", 1), 1);
}

void PostgresRelay::SetSilent(bool is_silent) {
  is_silent_ = is_silent;
  EXPECT_EQ(write(stop_[1], "s", 1), 1);
}

void PostgresRelay::Run() {
  std::vector<Link> links;
  while (Round(links)) {
  }
  for (const Link& link : links) Close(link);
}

// False: the relay ends.
bool PostgresRelay::Round(std::vector<Link>& links) {
  const short looks_for = is_silent_ ? 0 : POLLIN;
  std::vector<pollfd> ready = {{listener_, looks_for, 0}, {stop_[0], POLLIN, 0}};
  for (const Link& link : links) {
    ready.push_back({link.client, looks_for, 0});
    ready.push_back({link.server, looks_for, 0});
  }
  if (poll(ready.data(), ready.size(), -1) <= 0) return false;
  char wake = 0;
  if (ready[1].revents != 0 && read(stop_[0], &wake, 1) != 1) return false;
  std::vector<Link> left;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const bool has_client = ready[2 + 2 * i].revents != 0;
    const bool has_server = ready[3 + 2 * i].revents != 0;
    const bool goes_on =
        !is_away_ && (!has_client || FromClient(links[i])) && (!has_server || FromServer(links[i]));
    if (goes_on) {
      left.push_back(links[i]);
    } else {
      Close(links[i]);
    }
  }
  links = std::move(left);
  if (ready[0].revents != 0) Accept(links);
  return true;
}

void PostgresRelay::Accept(std::vector<Link>& links) {
  ++connects_;
  const Link link{accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC),
                  socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const sockaddr_un address = AddressOf(server_);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  const auto refuses = Taken(mutex_, to_next_);
  std::vector<char> asked(1 << 16);
  if (refuses && read(link.client, asked.data(), asked.size()) > 0) {
    (void)WriteAll(link.client, ErrorOf(*refuses));
  }
  if (!refuses && !is_away_ && connect(link.server, to, sizeof address) == 0) {
    links.push_back(link);
  } else {
    Close(link);
  }
}

void PostgresRelay::Close(const Link& link) {
  close(link.client);
  close(link.server);
}

bool PostgresRelay::Answer(const Link& link, std::string batch, const Word& word) {
  std::string answer;
  if (!ReadUntil(link.client, kSync, batch)) return false;
  if (word.is_committed &&
      !(WriteAll(link.server, batch) && ReadUntil(link.server, kIdle, answer))) {
    return false;
  }
  const bool goes_on = word.severity == "ERROR";
  return WriteAll(link.client, ErrorOf(word) + std::string(goes_on ? kIdle : "")) && goes_on;
}

// False: the connection is over.
bool PostgresRelay::FromClient(const Link& link) {
  std::vector<char> part(1 << 16);
  const ssize_t got = read(link.client, part.data(), part.size());
  if (got <= 0) return false;
  const std::string_view bytes(part.data(), static_cast<std::size_t>(got));
  const bool is_batch = bytes.find(kBatch) != std::string_view::npos;
  if (const auto word = is_batch ? Taken(mutex_, to_batch_) : std::nullopt) {
    return Answer(link, std::string(bytes), *word);
  }
  const Loses loses = is_batch ? loses_.exchange(Loses::kNothing) : Loses::kNothing;
  if (loses != Loses::kBatch && !WriteAll(link.server, bytes)) return false;
  // It comes once the batch is committed.
  if (loses == Loses::kAnswer) (void)read(link.server, part.data(), part.size());
  if (loses != Loses::kNothing) has_lost_ = true;
  return loses == Loses::kNothing;
}

bool PostgresRelay::FromServer(const Link& link) {
  std::vector<char> part(1 << 16);
  const ssize_t got = read(link.server, part.data(), part.size());
  return got > 0 &&
         WriteAll(link.client, std::string_view(part.data(), static_cast<std::size_t>(got)));
}

}  // namespace recourse
