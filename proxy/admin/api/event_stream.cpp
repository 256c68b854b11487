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

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/views/event_view.h"
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

std::string Hello(std::uint64_t last, bool has_gap) {
  return fmt::format("event: hello\ndata: {}\n\n", ObjectText([&](JsonObject& json) {
                       json.Raw("last", RowIdJson(last));
                       json.Bool("gap", has_gap);
                     }));
}

std::string Message(std::uint64_t id, std::string_view json) {
  return fmt::format("id: {}\nevent: event\ndata: {}\n\n", PrintRowId(id), json);
}

// In the order of the rows.
std::string Messages(const EventPage& page, PodNames& pods) {
  std::string text, json;
  const auto flush = [&](std::uint64_t id) {
    text += Message(id, json);
    json.clear();
  };
  EachRow(
      page,
      [&](const FlowMoved& moved) {
        AppendFlowMoved(json, moved, &pods);
        flush(moved.id);
      },
      [&](const Event& event) {
        AppendEvent(json, event, &pods);
        flush(event.id);
      });
  return text;
}

}  // namespace

EventStream::EventStream(Ledger& ledger, const Clock& clock)
    : ledger_(ledger),
      clock_(clock),
      pods_(ledger),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
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

std::expected<std::unique_ptr<BodySource>, std::string> EventStream::Watch(
    std::optional<std::uint64_t> after) {
  const std::uint64_t last = ledger_.Stats().last_id;
  const std::uint64_t position = std::min(after.value_or(last), last);
  const bool is_behind = last - position > limits::kStreamBacklogRows;
  Watcher watcher;
  watcher.position = is_behind ? last : position;
  watcher.pending = "retry: 1000\n" + Hello(watcher.position, is_behind);
  watcher.moved = watcher.told = clock_.Now();
  watcher.until = watcher.moved + limits::kStreamFor;
  const std::lock_guard lock(mutex_);
  if (watching_ >= limits::kStreamWatchersMax) {
    return std::unexpected(
        fmt::format("{} watch already; close a tab, or ask again in some seconds", watching_));
  }
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    return std::unexpected("the process has no file descriptor left for a stream");
  }
  watcher.fd = ends[0];
  new_.push_back(std::move(watcher));
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
    Wait(watchers_.empty() ? Millis(-1) : limits::kStreamHeartbeat / 4);
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
  last_ = ledger_.Stats().last_id;
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
  if (watcher.position < last_ && last_ - watcher.position > limits::kStreamBacklogRows) {
    watcher.position = last_;
    watcher.pending = Hello(last_, true);
  } else if (watcher.position < last_) {
    if (!ReadPage(watcher.position)) {
      watcher.is_gone = true;  // asking again will say why
      return false;
    }
    watcher.position = page_.to;
    watcher.pending = page_.text;
  } else if (now - watcher.told >= limits::kStreamHeartbeat) {
    watcher.pending = ": nothing new\n\n";
  }
  if (!watcher.pending.empty()) watcher.told = now;
  return watcher.position < last_;
}

// Watchers who are equally far get the same page. False: the rows cannot be read.
bool EventStream::ReadPage(std::uint64_t from) {
  if (page_.from == from && page_.until == last_) return true;
  const auto events = ledger_.List(
      {.after = from, .up_to = last_, .limit = limits::kStreamPageRows, .with_flows = true});
  if (!events) return false;
  page_ = {.from = from,
           .to = events->more ? events->last_id : last_,
           .until = last_,
           .text = Messages(*events, pods_)};
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

}  // namespace recourse
