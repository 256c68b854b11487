// HTTP/1.1 clients on keep-alive connections: each sends its next request when the answer to the
// one before it has been read to its end. Prints one JSON object.
//
// usage: loadgen --port N [--connections N] [--seconds S] [--method M] [--path P] [--body BYTES]
//                [--fresh-keys SEED] [--key-header NAME] [--rate N] [--requests N]
//                [--host NAME] [--text BODY] [--mode ask|idle|held|events] [--at-once N]
//                [--warm-up SECONDS]
//
// The request is the published one (bench/README.md): 6 fields on GET, 8 with a body. Without
// --fresh-keys every request is the same bytes; with it, each carries a trace id and an order id
// that no other one has, and with --key-header the same id in a header too. --rate spreads N
// requests per second over the connections and measures from the moment at which a request was due,
// so that a slow answer cannot hide its successors. --requests ends the run after so many, however
// long they take. --text is a body as it is. The modes stand in load.h; idle and held print when
// all connections are where they should be, and end with the input of the program. With --warm-up
// every connection asks once, the load begins, and "ready" is printed after so long; a line of
// input then starts what is measured, and the connections stay open until the input ends.
#include <csignal>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load.h"
#include "bench/sockets.h"

namespace recourse::bench {
namespace {

constexpr int kEventsMax = 512;
constexpr std::size_t kBufferBytes = 256 * 1024;
constexpr long kStallSeconds = 60;  // no answer at all for so long ends the run

struct Client {
  int fd = -1;
  std::string head;  // of the answer, until it is whole
  std::size_t body_left = 0;
  bool is_busy = false;  // waits for an answer
  bool in_body = false;
  std::uint64_t started_ns = 0;
};

class LoadGenerator {
 public:
  explicit LoadGenerator(const Options& options)
      : options_(options),
        request_(options),
        clients_(static_cast<std::size_t>(options.connections)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        buffer_(std::make_unique<char[]>(kBufferBytes)) {
    if (epoll_ < 0) Die("epoll_create1");
    for (Client& client : clients_) {
      client.fd = Connect(options.port);
      Watch(epoll_, EPOLL_CTL_ADD, client.fd, EPOLLIN, &client);
    }
  }

  // Sends until the time is over, then waits for the answers that are still out.
  void Run() {
    if (options_.warm_up > 0) {
      AskOnce();
      Load(options_.warm_up);
      tally_ = Tally{.failed = tally_.failed, .last_bad_status = tally_.last_bad_status};
      WaitForStart();
    }
    Load(options_.seconds);
  }

  // Every connection asks once and then stays as it is, until the input of the program ends.
  void Stay() {
    const std::uint64_t begin = NowNs();
    if (options_.mode == Mode::kIdle) {
      AskOnce();
    } else {
      for (Client& client : clients_) Send(client, NowNs());
    }
    tally_.elapsed_ns = NowNs() - begin;
    tally_.Print();
    WaitForEndOfInput();
  }

  const Tally& tally() const { return tally_; }

 private:
  // A few at a time; returns when all have their answers.
  void AskOnce() {
    for (Client& client : clients_) {
      while (outstanding_ >= options_.at_once) Turn();
      Send(client, NowNs());
    }
    while (outstanding_ > 0) Turn();
  }

  void Load(double seconds) {
    idle_.clear();
    sent_ = 0;
    begin_ns_ = NowNs();
    end_ns_ = begin_ns_ + static_cast<std::uint64_t>(seconds * 1e9);
    for (Client& client : clients_) Next(client);
    while (outstanding_ > 0 || (NowNs() < end_ns_ && options_.rate > 0)) Turn();
    tally_.elapsed_ns = NowNs() - begin_ns_;
  }

  void Turn() {
    epoll_event events[kEventsMax];
    const timespec wait = Wait();
    const int count = ::epoll_pwait2(epoll_, events, kEventsMax, &wait, nullptr);
    if (count == 0 && outstanding_ > 0 && wait.tv_sec >= kStallSeconds) {
      std::fprintf(stderr, "no answer for %ld s\n", kStallSeconds);
      std::exit(1);
    }
    for (int i = 0; i < count; ++i) Read(*static_cast<Client*>(events[i].data.ptr));
    while (options_.rate > 0 && !idle_.empty() && NowNs() >= DueNs() && DueNs() < end_ns_) {
      Client& client = *idle_.front();
      idle_.pop_front();
      Send(client, DueNs());
    }
  }

  // When the next request of a fixed rate is due.
  std::uint64_t DueNs() const {
    return begin_ns_ + static_cast<std::uint64_t>(static_cast<double>(sent_) * 1e9 / options_.rate);
  }

  // Until the next request is due; without one, until the server has to be given up.
  timespec Wait() const {
    if (options_.rate == 0 || idle_.empty() || DueNs() >= end_ns_) {
      const bool is_over = options_.rate > 0 && outstanding_ == 0;
      return {.tv_sec = is_over ? 0 : kStallSeconds, .tv_nsec = is_over ? 1'000'000 : 0};
    }
    const std::uint64_t now = NowNs(), due = DueNs();
    const auto left = static_cast<long>(due > now ? due - now : 0);
    return {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  }

  void Next(Client& client) {
    if (options_.rate > 0) {
      idle_.push_back(&client);
      return;
    }
    const std::uint64_t now = NowNs();
    if (options_.requests > 0 ? sent_ < options_.requests : now < end_ns_) Send(client, now);
  }

  void Send(Client& client, std::uint64_t started_ns) {
    if (options_.seed != 0) request_.MakeFresh();
    const std::string_view bytes = request_.Bytes();
    // A request is far smaller than the socket's buffer, which is empty here.
    const ssize_t sent = ::send(client.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(bytes.size())) Die("send");
    client.started_ns = started_ns;
    client.is_busy = true;
    ++sent_;
    ++outstanding_;
  }

  void Read(Client& client) {
    const ssize_t size = ::recv(client.fd, buffer_.get(), kBufferBytes, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) return Reconnect(client);
    std::size_t left = static_cast<std::size_t>(size);
    if (!client.in_body) {
      client.head.append(buffer_.get(), left);
      const std::size_t end = client.head.find("\r\n\r\n");
      if (end == std::string::npos) return;
      left = client.head.size() - end - 4;
      const AnswerHead answer = ReadHead(client.head);
      if (answer.status / 100 != 2) {
        ++tally_.failed;
        tally_.last_bad_status = answer.status;
      }
      client.in_body = true;
      client.body_left = answer.length;
    }
    client.body_left -= left < client.body_left ? left : client.body_left;
    if (client.body_left == 0) Finish(client);
  }

  void Finish(Client& client) {
    tally_.histogram.Add(NowNs() - client.started_ns);
    --outstanding_;
    client.is_busy = false;
    client.in_body = false;
    client.head.clear();
    if (options_.mode == Mode::kAsk) Next(client);
  }

  // The server closed: a lost answer if one was due, else only an idle connection that ended.
  void Reconnect(Client& client) {
    ::close(client.fd);
    client.fd = Connect(options_.port);
    Watch(epoll_, EPOLL_CTL_ADD, client.fd, EPOLLIN, &client);
    if (!client.is_busy) return;
    ++tally_.failed;
    Finish(client);
  }

  const Options options_;
  Request request_;
  std::vector<Client> clients_;
  const int epoll_;
  const std::unique_ptr<char[]> buffer_;
  std::deque<Client*> idle_;  // a fixed rate: who may send next
  Tally tally_;
  std::uint64_t begin_ns_ = 0, end_ns_ = 0;
  std::uint64_t sent_ = 0;
  int outstanding_ = 0;
};

[[noreturn]] void Usage() {
  std::fputs(
      "usage: loadgen --port N [--connections N] [--seconds S] [--method M] [--path P]\n"
      "               [--body BYTES] [--fresh-keys SEED] [--key-header NAME] [--rate N]\n"
      "               [--requests N] [--host NAME] [--text BODY] [--mode ask|idle|held|events]\n"
      "               [--at-once N] [--warm-up SECONDS]\n",
      stderr);
  std::exit(2);
}

Mode ParseMode(std::string_view name) {
  if (name == "ask") return Mode::kAsk;
  if (name == "idle") return Mode::kIdle;
  if (name == "held") return Mode::kHeld;
  if (name == "events") return Mode::kEvents;
  Usage();
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  if (argc % 2 == 0) Usage();
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--port") {
      options.port = ParsePort(value);
    } else if (name == "--connections") {
      options.connections = std::atoi(value);
    } else if (name == "--seconds") {
      options.seconds = std::atof(value);
    } else if (name == "--method") {
      options.method = value;
    } else if (name == "--path") {
      options.path = value;
    } else if (name == "--body") {
      options.body_bytes = std::strtoul(value, nullptr, 10);
    } else if (name == "--fresh-keys") {
      options.seed = std::strtoul(value, nullptr, 10);
    } else if (name == "--key-header") {
      options.key_header = value;
    } else if (name == "--warm-up") {
      options.warm_up = std::atof(value);
    } else if (name == "--at-once") {
      options.at_once = std::atoi(value);
    } else if (name == "--requests") {
      options.requests = std::strtoul(value, nullptr, 10);
    } else if (name == "--host") {
      options.host = value;
    } else if (name == "--text") {
      options.text = value;
    } else if (name == "--mode") {
      options.mode = ParseMode(value);
    } else if (name == "--rate") {
      options.rate = std::atof(value);
    } else {
      Usage();
    }
  }
  if (options.port == 0 || options.connections < 1 || options.connections > 20'000) Usage();
  return options;
}

}  // namespace
}  // namespace recourse::bench

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  using recourse::bench::Mode;
  const auto options = recourse::bench::ParseOptions(argc, argv);
  if (options.mode == Mode::kEvents) {
    recourse::bench::ReadEvents(options);
    return 0;
  }
  recourse::bench::LoadGenerator generator(options);
  if (options.mode == Mode::kAsk) {
    generator.Run();
    generator.tally().Print();
    if (options.warm_up > 0) recourse::bench::WaitForEndOfInput();
  } else {
    generator.Stay();
  }
}
