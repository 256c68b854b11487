// Streams of events (SSE) as a client sees them: each event carries the time at which the backend
// sent it, and what is counted is how long it took to get here. All on one machine, one clock.
#include <string>
#include <string_view>
#include <vector>

#include "bench/load.h"
#include "bench/sockets.h"

namespace recourse::bench {
namespace {

constexpr int kEventsMax = 512;
constexpr std::size_t kTimeDigitsMin = 12;
constexpr std::uint64_t kStartNsMax =
    30'000'000'000;  // a stream that has not begun then has failed

struct Stream {
  int fd = -1;
  std::string unread{};  // a line that is not whole
};

class EventStreams {
 public:
  explicit EventStreams(const Options& options)
      : options_(options),
        streams_(static_cast<std::size_t>(options.connections)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_ < 0) Die("epoll_create1");
    const Request request(options);
    for (Stream& stream : streams_) {
      stream.fd = Connect(options.port);
      Watch(epoll_, EPOLL_CTL_ADD, stream.fd, EPOLLIN, &stream);
      if (::send(stream.fd, request.Bytes().data(), request.Bytes().size(), MSG_NOSIGNAL) < 0) {
        Die("send");
      }
    }
  }

  // The time begins when every stream has begun.
  Tally Run() {
    const std::uint64_t start = NowNs();
    while (begun_ < streams_.size() && NowNs() - start < kStartNsMax) Turn();
    if (options_.warm_up > 0) {
      Load(options_.warm_up);
      WaitForStart();
    }
    tally_ = Tally{.failed = streams_.size() - begun_ + tally_.failed};
    counted_from_ns_ = NowNs();
    Load(options_.seconds);
    return tally_;
  }

 private:
  void Load(double seconds) {
    const std::uint64_t begin = NowNs();
    const std::uint64_t end = begin + static_cast<std::uint64_t>(seconds * 1e9);
    while (NowNs() < end) Turn();
    tally_.elapsed_ns = NowNs() - begin;
  }

  void Turn() {
    epoll_event events[kEventsMax];
    const int count = ::epoll_wait(epoll_, events, kEventsMax, 100);
    for (int i = 0; i < count; ++i) Read(*static_cast<Stream*>(events[i].data.ptr));
  }

  void Read(Stream& stream) {
    char buffer[16 * 1024];
    const ssize_t size = ::recv(stream.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {  // a stream that ends is a failure: the backend never ends one
      ++tally_.failed;
      ::close(stream.fd);
      return;
    }
    stream.unread.append(buffer, static_cast<std::size_t>(size));
    std::size_t line = 0;
    for (std::size_t end = stream.unread.find('\n'); end != std::string::npos;
         end = stream.unread.find('\n', line)) {
      Take(std::string_view(stream.unread).substr(line, end - line));
      line = end + 1;
    }
    stream.unread.erase(0, line);
  }

  // Head lines and the framing of chunks are passed over.
  void Take(std::string_view line) {
    constexpr std::string_view kData = "data: ", kStatus = "HTTP/1.1 ";
    if (line.starts_with(kStatus)) {
      const int status = std::atoi(line.data() + kStatus.size());
      if (status == 200) return static_cast<void>(++begun_);
      tally_.last_bad_status = status;
    }
    if (!line.starts_with(kData)) return;
    const std::string_view time = line.substr(kData.size(), line.find(' ', kData.size()));
    if (time.size() < kTimeDigitsMin) return;
    const std::uint64_t sent_ns = std::strtoull(time.data(), nullptr, 10);
    if (sent_ns < counted_from_ns_) return;  // it came while nobody read
    const std::uint64_t now = NowNs();
    tally_.histogram.Add(now > sent_ns ? now - sent_ns : 0);
  }

  const Options& options_;
  std::vector<Stream> streams_;
  const int epoll_;
  std::size_t begun_ = 0;
  std::uint64_t counted_from_ns_ = 0;  // events that were sent before are not counted
  Tally tally_;
};

}  // namespace

void ReadEvents(const Options& options) {
  EventStreams streams(options);
  streams.Run().Print();
  if (options.warm_up > 0) WaitForEndOfInput();
}

}  // namespace recourse::bench
