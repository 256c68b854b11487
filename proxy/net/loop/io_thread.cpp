#include "proxy/net/loop/io_thread.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <system_error>

#include "proxy/base/check.h"
#include "proxy/base/frame_arena.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

constexpr int kJobsPerTurn = 4;

int FdOrThrow(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::system_category(), what);
  return fd;
}

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

int NewTimer() {
  return FdOrThrow(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
}

// All but a sixteenth.
int FilesShortFrom() {
  constexpr rlim_t kMany = std::numeric_limits<int>::max();
  rlimit files{};
  const rlim_t most = ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : kMany;
  return static_cast<int>(std::min(most, kMany) / 16 * 15);
}

std::vector<Job> Alone(Job job) {
  std::vector<Job> jobs;
  jobs.push_back(std::move(job));
  return jobs;
}

}  // namespace

IoThread::IoThread(const Clock& clock, int speed)
    : clock_(clock),
      speed_(speed),
      files_short_from_(FilesShortFrom()),
      wheel_(clock.Now()),
      upkeep_(wheel_, clock),
      buffers_(upkeep_),
      tick_(*this),
      bell_(reactor_, FdOrThrow(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")) {
  // Without them nothing would end in time, or at all.
  FdOrThrow(tick_.timer.fd(), "epoll_ctl");
  FdOrThrow(bell_.fd(), "epoll_ctl");
  wheel_.OnLook([](void* self, MonoTime when) { static_cast<IoThread*>(self)->LookAt(when); },
                this);
  upkeep_.Add([this] { return TrimBuffers(); });
  upkeep_.Add([this] { return heads_.Trim(); });
}

IoThread::~IoThread() { Join(); }

void IoThread::Start(const std::string& name) {
  thread_ = std::thread([this, name] {
    NameThread(name);
    Run();
  });
}

void IoThread::Stop() {
  stopped_ = true;
  Wake();
}

void IoThread::Join() {
  if (thread_.joinable()) thread_.join();
}

void IoThread::Run() {
  FrameArena frames;
  MonoTime woke = clock_.Now();
  while (!stopped_) {
    RunPosted();
    const bool may_wait = MayWait();
    const MonoTime ended = clock_.Now();
    if (told_turn_) told_turn_(ended - woke);
    reactor_.Listen(may_wait ? Reactor::Wait::kYes : Reactor::Wait::kNo);
    woke = may_wait ? clock_.Now() : ended;
    is_asleep_ = false;
    reactor_.GoOn();
  }
}

// Says that it sleeps before it looks for jobs a last time, and whoever posts looks for that after
// the job is there: one of them sees the other.
bool IoThread::MayWait() {
  if (!posted_.empty() || reactor_.has_queued()) return false;
  is_asleep_ = true;
  return !has_incoming_ && !stopped_;
}

void IoThread::Wake() {
  if (!is_asleep_.exchange(false)) return;
  constexpr std::uint64_t kOnce = 1;
  (void)!::write(bell_.fd(), &kOnce, sizeof kOnce);
}

void IoThread::Post(std::vector<Job> jobs) {
  {
    const std::lock_guard lock(mutex_);
    std::move(jobs.begin(), jobs.end(), std::back_inserter(incoming_));
  }
  has_incoming_ = true;
  Wake();
}

// A commit of the ledger wakes as many writes as were in its batch. Sockets get their turn between
// a few of them, or a read would wait for all.
void IoThread::RunPosted() {
  if (has_incoming_) {
    has_incoming_ = false;
    const std::lock_guard lock(mutex_);
    std::move(incoming_.begin(), incoming_.end(), std::back_inserter(posted_));
    incoming_.clear();
  }
  for (int i = 0; i < kJobsPerTurn && !posted_.empty(); ++i) {
    Job job = std::move(posted_.front());
    posted_.pop_front();
    job();
  }
}

// Who looks for files that other threads can close. Shared with what those do, which may take
// longer than anybody waits; used on the thread that looks alone.
struct IoThread::Search {
  Search(DeadlineWheel& wheel, std::size_t asked)
      : limit(wheel, &Search::GiveUp, this), left(asked) {}
  static void GiveUp(void* self) { static_cast<Search*>(self)->End(false); }
  void Told(bool freed) {
    --left;
    if (freed || left == 0) End(freed);
  }
  void End(bool freed) {
    limit.Disarm();
    if (!found.is_set()) found.Set(freed);
  }

  Promise<bool> found;
  Deadline limit;
  std::size_t left;  // have not answered
};

Task<bool> IoThread::FreeFilesAnywhere(MonoTime limit) {
  if (FreeFiles()) co_return true;
  if (all_.size() <= 1) co_return false;
  const auto search = std::make_shared<Search>(wheel_, all_.size() - 1);
  search->limit.Arm(limit);
  for (IoThread* const peer : all_) {
    if (peer == this) continue;
    peer->Post(Alone([this, peer, shared = search]() mutable {
      const bool freed = peer->FreeFiles();
      Post(Alone([back = std::move(shared), freed] { back->Told(freed); }));
    }));
  }
  co_return co_await search->found.Wait();
}

IoThread::Tick::Tick(IoThread& of)
    : Waiter(&Tick::Run), thread(of), timer(of.reactor_, NewTimer()) {
  timer.Park(*this, Ready::kRead);
}

void IoThread::Tick::Run(Waiter& self) {
  auto& tick = static_cast<Tick&>(self);
  std::uint64_t times = 0;
  (void)!::read(tick.timer.fd(), &times, sizeof times);
  tick.thread.wheel_.Advance(tick.thread.clock_.Now());
  tick.timer.Park(tick, Ready::kRead);
}

// Few of the deadlines that requests arm are sooner than the one that is waited for already.
void IoThread::LookAt(MonoTime when) {
  const auto left = (when - clock_.Now()) / speed_;
  const auto nanos = std::max<std::int64_t>(std::chrono::nanoseconds(left).count(), 1);
  const itimerspec once{
      .it_interval = {},
      .it_value = {.tv_sec = nanos / kNanosPerSecond, .tv_nsec = nanos % kNanosPerSecond}};
  RC_CHECK(::timerfd_settime(tick_.timer.fd(), 0, &once, nullptr) == 0);
}

// Buffers that nobody needs any more show that a crowd has gone.
bool IoThread::TrimBuffers() {
  const std::size_t before = buffers_.kept();
  const bool has_more = buffers_.Trim();
  if (has_more && buffers_.kept() == before) return true;
  return heap_.Look(clock_.Now()) || has_more;
}

Task<void> IoThread::SleepUntil(MonoTime when) {
  struct Awaiter {
    DeadlineWheel& wheel;
    MonoTime when;
    std::coroutine_handle<> handle{};
    Deadline deadline{wheel, [](void* self) { static_cast<Awaiter*>(self)->handle.resume(); },
                      this};
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> awaiting) {
      handle = awaiting;
      deadline.Arm(when);
    }
    void await_resume() {}
  };
  co_await Awaiter{wheel_, when};
}

namespace {

using Addresses = std::vector<boost::asio::ip::address>;

// Blocks for as long as the system's resolver likes.
Addresses AddressesOf(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  Addresses addresses;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (addresses.size() == limits::kAddressesPerNameMax) break;
    Tcp::endpoint endpoint;
    if (entry->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), entry->ai_addr, entry->ai_addrlen);
    addresses.push_back(endpoint.address());
  }
  ::freeaddrinfo(found);
  return addresses;
}

}  // namespace

// Somebody who waits for a look-up, which nothing can interrupt and which may outlive the waiting.
struct IoThread::Asker {
  explicit Asker(DeadlineWheel& wheel) : limit(wheel, &Asker::GiveUp, this) {}
  static void GiveUp(void* self) { static_cast<Asker*>(self)->found.Set({}); }

  Promise<Addresses> found;
  Deadline limit;
};

// Null when there is none and the system gives no thread.
IoThread::Helper* IoThread::LeastBusyHelper() {
  const auto least =
      std::min_element(helpers_.begin(), helpers_.end(),
                       [](const auto& a, const auto& b) { return a->at_work < b->at_work; });
  if (least != helpers_.end() &&
      ((*least)->at_work == 0 || helpers_.size() == limits::kLookupThreads)) {
    return least->get();
  }
  try {
    Helper* const helper = helpers_.emplace_back(std::make_unique<Helper>()).get();
    boost::asio::post(helper->thread, [] { NameThread("recourse-names"); });
    return helper;
  } catch (const std::exception& error) {
    Log(LogLevel::kWarn, "cannot start a thread to look up names", {{"error", error.what()}});
    return helpers_.empty() ? nullptr : helpers_.front().get();
  }
}

void IoThread::StartLookup(const std::string& host) {
  Helper* const helper = LeastBusyHelper();
  if (helper == nullptr) {
    Post(Alone([this, host] { EndLookup(host, {}); }));
    return;
  }
  ++helper->at_work;
  boost::asio::post(helper->thread, [this, host, helper] {
    Post(Alone([this, host, helper, addresses = AddressesOf(host)]() mutable {
      --helper->at_work;
      EndLookup(host, std::move(addresses));
    }));
  });
}

void IoThread::EndLookup(const std::string& host, Addresses addresses) {
  if (names_.size() >= kNamesKept) names_.clear();
  const Millis ttl = addresses.empty() ? kFailedNameTtl : kNameTtl;
  names_[host] = Name{addresses, clock_.Now() + ttl};
  auto waiting = waiting_.extract(host);
  for (Asker* const asker : waiting.mapped()) asker->found.Set(addresses);
}

Task<Addresses> IoThread::Resolve(std::string host, MonoTime deadline) {
  IoError ec;
  const auto literal = boost::asio::ip::make_address(host, ec);
  if (!ec) co_return Addresses{literal};
  const MonoTime now = clock_.Now();
  if (const auto known = names_.find(host); known != names_.end() && known->second.expires > now) {
    co_return known->second.addresses;
  }
  Asker asker(wheel_);
  asker.limit.Arm(deadline);
  const auto [waiting, is_first] = waiting_.try_emplace(host);
  waiting->second.push_back(&asker);
  if (is_first) StartLookup(host);
  Addresses addresses = co_await asker.found.Wait();
  // Still there when the deadline came first.
  if (const auto still = waiting_.find(host); still != waiting_.end()) {
    std::erase(still->second, &asker);
  }
  co_return addresses;
}

}  // namespace recourse
