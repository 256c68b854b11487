// Tells watchers of new events of the ledger, as server-sent events, on a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/news_place.h"
#include "proxy/admin/api/event_feed.h"
#include "proxy/base/clock.h"
#include "proxy/base/json/json_shape.h"
#include "proxy/net/beast/http_server.h"

namespace recourse {

// Each watcher is a stream of
//   event: hello  data: {"last":PLACE} once; with `gap`, when so much came that the watcher has to
//                                      ask anew
//   event: event  id: PLACE  data: an event or a move of a flow, as GET /events?flows=true shows it
// and a comment every kStreamHeartbeat. Whoever takes nothing for kStreamStall is let go, as is
// everybody after kStreamFor; Last-Event-ID goes on where they were.
class EventStream {
 public:
  // `ledger` and `clock` outlive it, or are not used after Stop().
  EventStream(Ledger& ledger, const Clock& clock);
  ~EventStream();
  // Nothing is told any more, and the ledger is not read any more. Notify stays allowed.
  void Stop();

  // Something was committed here; what others commit is looked for. Any thread; never blocks, and
  // costs nothing while nobody watches.
  void Notify();

  // What comes after `after`; unset: from now on. Any thread; may block. Fails with a line for
  // people when there are kStreamWatchersMax already, or the ledger cannot be read.
  std::expected<std::unique_ptr<BodySource>, std::string> Watch(std::optional<NewsPlace> after);

 private:
  struct Watcher {
    int fd = -1;            // of a socket pair; the server has the other end
    NewsPlace position{};   // every row up to here was told
    std::string pending;    // not taken yet
    std::size_t taken = 0;  // of `pending`
    MonoTime until{}, moved{}, told{};
    bool is_gone = false;
  };
  // What came after `from` up to `to`, as it was found by that look.
  struct Page {
    std::uint64_t look = 0;
    NewsPlace from{}, to{};
    std::string text;
    bool more = false, is_behind = false;
  };

  void Run();
  void TakeNew();
  void Wait(Millis at_most);
  void Tell();
  // False: nothing more can be told now.
  bool TellMore(Watcher& watcher, MonoTime now);
  bool Fill(Watcher& watcher, MonoTime now);
  bool ReadPage(const NewsPlace& from);
  std::expected<Watcher, std::string> NewWatcher(const std::optional<NewsPlace>& after);
  static void Send(Watcher& watcher, MonoTime now);

  EventFeed feed_;
  const Clock& clock_;
  int wake_ = -1;                      // eventfd
  std::atomic<bool> is_armed_{false};  // the thread wants to be woken
  std::atomic<bool> is_stopping_{false};

  // The stream's thread.
  std::vector<Watcher> watchers_;
  Page page_;
  std::uint64_t looks_ = 0;

  std::mutex mutex_;
  std::vector<Watcher> new_;  // guarded by mutex_
  std::size_t watching_ = 0;  // guarded by mutex_

  std::thread thread_;
};

JsonShape StreamMessageShape();

}  // namespace recourse
