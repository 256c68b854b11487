#include "proxy/net/io_thread.h"

#include <netdb.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>
#include <iterator>

#include "proxy/base/limits.h"
#include "proxy/base/log.h"

namespace recourse {
namespace {

constexpr int kJobsPerTurn = 4;

}  // namespace

BufferPool::~BufferPool() {
  for (char* buffer : free_) delete[] buffer;
}

BufferPool::Buffer BufferPool::Take() {
  if (free_.empty()) return Buffer(new char[limits::kRelayBufferBytes], Return{this});
  char* buffer = free_.back();
  free_.pop_back();
  return Buffer(buffer, Return{this});
}

void BufferPool::Give(char* buffer) {
  if (free_.size() < kKept) {
    free_.push_back(buffer);
  } else {
    delete[] buffer;
  }
}

IoThread::IoThread(const Clock& clock)
    : clock_(clock),
      work_(boost::asio::make_work_guard(context_)),
      wheel_(clock.Now()),
      tick_(context_) {}

IoThread::~IoThread() { Join(); }

void IoThread::Start() {
  Tick();
  thread_ = std::thread([this] { context_.run(); });
}

void IoThread::Stop() { context_.stop(); }

void IoThread::Join() {
  if (thread_.joinable()) thread_.join();
}

void IoThread::Post(std::vector<Job> jobs) {
  boost::asio::post(context_, [this, batch = std::move(jobs)]() mutable {
    const bool is_idle = posted_.empty();
    std::move(batch.begin(), batch.end(), std::back_inserter(posted_));
    if (is_idle) RunPosted();
  });
}

// A commit of the ledger wakes as many writes as were in its batch. Sockets get their turn between
// a few of them, or a read would wait for all.
void IoThread::RunPosted() {
  for (int i = 0; i < kJobsPerTurn && !posted_.empty(); ++i) {
    Job job = std::move(posted_.front());
    posted_.pop_front();
    job();
  }
  if (!posted_.empty()) boost::asio::post(context_, [this] { RunPosted(); });
}

// The tick runs while the thread lives: 20 cheap wake-ups a second, in exchange for no timer
// bookkeeping on the request path.
void IoThread::Tick() {
  tick_.expires_after(DeadlineWheel::kTick);
  tick_.async_wait([this](IoError ec) {
    if (ec) return;
    wheel_.Advance(clock_.Now());
    Tick();
  });
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
Addresses LookUp(const std::string& host) {
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
struct IoThread::Waiter {
  explicit Waiter(DeadlineWheel& wheel) : limit(wheel, &Waiter::GiveUp, this) {}
  static void GiveUp(void* self) { static_cast<Waiter*>(self)->found.Set({}); }

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
    return helpers_.emplace_back(std::make_unique<Helper>()).get();
  } catch (const std::exception& error) {
    Log(LogLevel::kWarn, "cannot start a thread to look up names", {{"error", error.what()}});
    return helpers_.empty() ? nullptr : helpers_.front().get();
  }
}

void IoThread::StartLookup(const std::string& host) {
  Helper* const helper = LeastBusyHelper();
  if (helper == nullptr) {
    boost::asio::post(context_, [this, host] { EndLookup(host, {}); });
    return;
  }
  ++helper->at_work;
  boost::asio::post(helper->thread, [this, host, helper] {
    boost::asio::post(context_, [this, host, helper, addresses = LookUp(host)]() mutable {
      --helper->at_work;
      EndLookup(host, std::move(addresses));
    });
  });
}

void IoThread::EndLookup(const std::string& host, Addresses addresses) {
  if (names_.size() >= kNamesKept) names_.clear();
  const Millis ttl = addresses.empty() ? kFailedNameTtl : kNameTtl;
  names_[host] = Name{addresses, clock_.Now() + ttl};
  auto waiting = waiting_.extract(host);
  for (Waiter* const waiter : waiting.mapped()) waiter->found.Set(addresses);
}

Task<Addresses> IoThread::Resolve(std::string host, MonoTime deadline) {
  IoError ec;
  const auto literal = boost::asio::ip::make_address(host, ec);
  if (!ec) co_return Addresses{literal};
  const MonoTime now = clock_.Now();
  if (const auto known = names_.find(host); known != names_.end() && known->second.expires > now) {
    co_return known->second.addresses;
  }
  Waiter waiter(wheel_);
  waiter.limit.Arm(deadline);
  const auto [waiting, is_first] = waiting_.try_emplace(host);
  waiting->second.push_back(&waiter);
  if (is_first) StartLookup(host);
  Addresses addresses = co_await waiter.found.Wait();
  // Still there when the deadline came first.
  if (const auto still = waiting_.find(host); still != waiting_.end()) {
    std::erase(still->second, &waiter);
  }
  co_return addresses;
}

}  // namespace recourse
