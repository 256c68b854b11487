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

void PostgresRelay::Run() {
  std::vector<Link> links;
  while (Round(links)) {
  }
  for (const Link& link : links) Close(link);
}

// False: the relay ends.
bool PostgresRelay::Round(std::vector<Link>& links) {
  std::vector<pollfd> ready = {{listener_, POLLIN, 0}, {stop_[0], POLLIN, 0}};
  for (const Link& link : links) {
    ready.push_back({link.client, POLLIN, 0});
    ready.push_back({link.server, POLLIN, 0});
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
  const Link link{accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC),
                  socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const sockaddr_un address = AddressOf(server_);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  if (!is_away_ && connect(link.server, to, sizeof address) == 0) {
    links.push_back(link);
  } else {
    Close(link);
  }
}

void PostgresRelay::Close(const Link& link) {
  close(link.client);
  close(link.server);
}

// False: the connection is over.
bool PostgresRelay::FromClient(const Link& link) {
  std::vector<char> part(1 << 16);
  const ssize_t got = read(link.client, part.data(), part.size());
  if (got <= 0) return false;
  const std::string_view bytes(part.data(), static_cast<std::size_t>(got));
  const bool is_batch = bytes.find(kBatch) != std::string_view::npos;
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
