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

void PostgresRelay::SetAway(bool is_away) {
  is_away_ = is_away;
  EXPECT_EQ(write(stop_[1], "a", 1), 1);
}

// Of the pipe that wakes: its end has been closed, or somebody has set is_away_.
bool PostgresRelay::IsOver(short events) {
  char wake = 0;
  return events != 0 && read(stop_[0], &wake, 1) != 1;
}

void PostgresRelay::Run() {
  for (;;) {
    pollfd ready[2] = {{listener_, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    if (poll(ready, 2, -1) <= 0 || IsOver(ready[1].revents)) return;
    if (ready[0].revents == 0) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    if (!is_away_) Serve(client);
    close(client);
    if (is_over_) return;
  }
}

void PostgresRelay::Serve(int client) {
  const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = AddressOf(server_);
  if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    while (Forward(client, server)) {
    }
  }
  close(server);
}

// False: the connection is over.
bool PostgresRelay::Forward(int client, int server) {
  pollfd ready[3] = {{client, POLLIN, 0}, {server, POLLIN, 0}, {stop_[0], POLLIN, 0}};
  if (poll(ready, 3, -1) <= 0) return false;
  if (IsOver(ready[2].revents)) {
    is_over_ = true;
    return false;
  }
  if (is_away_) return false;
  std::vector<char> part(1 << 16);
  if (ready[0].revents != 0) {
    const ssize_t got = read(client, part.data(), part.size());
    if (got <= 0) return false;
    const std::string_view bytes(part.data(), static_cast<std::size_t>(got));
    const bool is_batch = bytes.find(kBatch) != std::string_view::npos;
    const Loses loses = is_batch ? loses_.exchange(Loses::kNothing) : Loses::kNothing;
    if (loses == Loses::kBatch) {
      has_lost_ = true;
      return false;
    }
    if (!WriteAll(server, bytes)) return false;
    if (loses == Loses::kAnswer) {
      // It comes once the batch is committed.
      (void)read(server, part.data(), part.size());
      has_lost_ = true;
      return false;
    }
  }
  if (ready[1].revents != 0) {
    const ssize_t got = read(server, part.data(), part.size());
    if (got <= 0) return false;
    return WriteAll(client, std::string_view(part.data(), static_cast<std::size_t>(got)));
  }
  return true;
}

}  // namespace recourse
