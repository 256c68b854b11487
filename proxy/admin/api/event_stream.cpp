#include "proxy/admin/api/event_stream.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "proxy/base/json/json_object.h"
#include "proxy/base/thread_name.h"
#include "proxy/base/watch_limits.h"

namespace recourse {
namespace {

// The server's end of a watcher's socket pair.
class StreamSource final : public BodySource {
 public:
  explicit StreamSource(int fd) : fd_(fd) {}
  ~StreamSource() override { ::close(fd_); }
  int fd() const override { return fd_; }
  bool Finish() override { return true; }  // a stream may end anywhere between two messages

 private:
  const int fd_;
};

namespace hello_members {

struct Hello {
  const NewsPlace& last;
  bool has_gap;
};
constexpr JsonMember<Hello> kHello[] = {
    member::Raw<[](const Hello& of) { return NewsPlaceJson(of.last); }>(
        "last", R"({"type": ["integer", "string"]})", "To go on from, with `after`"),
    member::Bool<&Hello::has_gap>("gap", "Rows were left out: read them with GET /events"),
};

}  // namespace hello_members

std::string Hello(const NewsPlace& last, bool has_gap) {
  return fmt::format("event: hello\ndata: {}\n\n", ObjectText([&](JsonObject& json) {
                       WriteMembers(json, hello_members::kHello, {last, has_gap});
                     }));
}

// Who goes on after one without a place, as so many write, may be told of some rows again.
std::string Messages(const NewsPlace& from, const EventFeed::News& news, PodNames& pods) {
  std::string text;
  EachNews(from, news, pods, [&](const NewsPlace& place, const std::string& json) {
    const std::string id = PrintNewsPlace(place);
    if (id.size() <= limits::kStreamPlaceBytes) text += "id: " + id + "\n";
    text += "event: event\ndata: " + json + "\n\n";
  });
  return text;
}

}  // namespace

EventStream::EventStream(Ledger& ledger, const Clock& clock)
    : feed_(ledger), clock_(clock), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  thread_ = std::thread([this] { Run(); });
}

EventStream::~EventStream() {
  Stop();
  for (const Watcher& watcher : watchers_) ::close(watcher.fd);
  for (const Watcher& watcher : new_) ::close(watcher.fd);
  ::close(wake_);
}

void EventStream::Stop() {
  if (!thread_.joinable()) return;
  is_stopping_ = true;
  is_armed_ = true;
  Notify();
  thread_.join();
}

void EventStream::Notify() {
  if (is_armed_.exchange(false)) {
    const std::uint64_t one = 1;
    (void)!::write(wake_, &one, sizeof one);
  }
}

std::expected<EventStream::Watcher, std::string> EventStream::NewWatcher(
    const std::optional<NewsPlace>& after) {
  Watcher watcher;
  bool has_gap = false;
  if (after) {
    const auto news = feed_.After(*after, {.with_flows = true});
    if (!news) return std::unexpected(std::string(news.error().detail()));
    has_gap = news->is_behind;
    const bool is_at_end = !news->more && news->page.events.empty() && news->page.flows.empty();
    watcher.position = has_gap || is_at_end ? news->to : *after;
  } else {
    auto end = feed_.End();
    if (!end) return std::unexpected(std::string(end.error().detail()));
    watcher.position = std::move(*end);
  }
  watcher.pending = "retry: 1000\n" + Hello(watcher.position, has_gap);
  watcher.moved = watcher.told = clock_.Now();
  watcher.until = watcher.moved + limits::kStreamFor;
  return watcher;
}

std::expected<std::unique_ptr<BodySource>, std::string> EventStream::Watch(
    std::optional<NewsPlace> after) {
  auto watcher = NewWatcher(after);
  if (!watcher) return std::unexpected(watcher.error());
  const std::lock_guard lock(mutex_);
  if (watching_ >= limits::kStreamWatchersMax) {
    return std::unexpected(
        fmt::format("{} watch already; close a tab, or ask again in some seconds", watching_));
  }
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    return std::unexpected("the process has no file descriptor left for a stream");
  }
  watcher->fd = ends[0];
  new_.push_back(std::move(*watcher));
  ++watching_;
  is_armed_ = true;
  Notify();
  return std::make_unique<StreamSource>(ends[1]);
}

void EventStream::Run() {
  NameThread("recourse-events");
  while (!is_stopping_) {
    TakeNew();
    Tell();
    // Whatever is committed from here on wakes the thread; what came before is told already.
    if (!watchers_.empty()) is_armed_ = true;
    const Millis pause = feed_.is_shared() ? limits::kStreamLook : limits::kStreamHeartbeat / 4;
    Wait(watchers_.empty() ? Millis(-1) : pause);
    if (is_stopping_) return;
    // What comes close together is told together. The ledger publishes its newest row meanwhile.
    Wait(limits::kStreamPause);
  }
}

void EventStream::TakeNew() {
  const std::lock_guard lock(mutex_);
  std::erase_if(watchers_, [this](const Watcher& watcher) {
    if (!watcher.is_gone) return false;
    ::close(watcher.fd);
    --watching_;
    return true;
  });
  std::move(new_.begin(), new_.end(), std::back_inserter(watchers_));
  new_.clear();
}

// Until something was committed, a watcher takes more or is gone; negative: without an end.
void EventStream::Wait(Millis at_most) {
  std::vector<pollfd> looked;
  for (const Watcher& watcher : watchers_) {
    const bool has_more = watcher.taken < watcher.pending.size();
    looked.push_back({watcher.fd, static_cast<short>(has_more ? POLLOUT : 0), 0});
  }
  looked.push_back({wake_, POLLIN, 0});
  (void)::poll(looked.data(), looked.size(), static_cast<int>(at_most.count()));
  for (std::size_t i = 0; i < watchers_.size(); ++i) {
    if ((looked[i].revents & (POLLERR | POLLHUP)) != 0) watchers_[i].is_gone = true;
  }
  std::uint64_t count = 0;
  if (looked.back().revents != 0) (void)!::read(wake_, &count, sizeof count);
}

void EventStream::Tell() {
  ++looks_;
  const MonoTime now = clock_.Now();
  for (bool more = true; more && !is_stopping_;) {
    more = false;
    for (Watcher& watcher : watchers_) more = TellMore(watcher, now) || more;
  }
}

bool EventStream::TellMore(Watcher& watcher, MonoTime now) {
  if (watcher.is_gone) return false;
  Send(watcher, now);
  const bool is_waiting = watcher.taken < watcher.pending.size();
  if (is_waiting && now - watcher.moved > limits::kStreamStall) watcher.is_gone = true;
  if (!is_waiting && now > watcher.until) watcher.is_gone = true;
  if (is_waiting || watcher.is_gone) return false;
  const bool has_more = Fill(watcher, now);
  Send(watcher, now);
  return has_more && !watcher.is_gone && watcher.taken == watcher.pending.size();
}

// What is to be said next. True: there is more after it.
bool EventStream::Fill(Watcher& watcher, MonoTime now) {
  watcher.pending.clear();
  watcher.taken = 0;
  if (!ReadPage(watcher.position)) {
    watcher.is_gone = true;  // asking again will say why
    return false;
  }
  watcher.position = page_.to;
  if (page_.is_behind) {
    watcher.pending = Hello(page_.to, true);
  } else if (!page_.text.empty()) {
    watcher.pending = page_.text;
  } else if (now - watcher.told >= limits::kStreamHeartbeat) {
    watcher.pending = ": nothing new\n\n";
  }
  if (!watcher.pending.empty()) watcher.told = now;
  return page_.more;
}

// Watchers who are equally far get the same page. False: the rows cannot be read.
bool EventStream::ReadPage(const NewsPlace& from) {
  if (page_.look == looks_ && page_.from == from) return true;
  const auto news = feed_.After(from, {.with_flows = true});
  if (!news) return false;
  page_ = {.look = looks_,
           .from = from,
           .to = news->to,
           .text = Messages(from, *news, feed_.pods()),
           .more = news->more,
           .is_behind = news->is_behind};
  return true;
}

void EventStream::Send(Watcher& watcher, MonoTime now) {
  while (watcher.taken < watcher.pending.size()) {
    const ssize_t sent = ::send(watcher.fd, watcher.pending.data() + watcher.taken,
                                watcher.pending.size() - watcher.taken, MSG_NOSIGNAL);
    if (sent > 0) {
      watcher.taken += static_cast<std::size_t>(sent);
      watcher.moved = now;
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) watcher.is_gone = true;
    return;
  }
}

JsonShape StreamMessageShape() {
  JsonShape shape{
      .name = "StreamMessage",
      .text = "The data of a message: of `hello` the first, of `event` one of the others.",
      .members = {}};
  shape.any_of = {SchemaOf({"", "", DocsOf(hello_members::kHello)}), SchemaReference("Event"),
                  SchemaReference("FlowMove")};
  return shape;
}

}  // namespace recourse
