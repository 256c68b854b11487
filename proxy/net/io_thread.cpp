#include "proxy/net/io_thread.h"

#include <boost/asio/post.hpp>

#include "proxy/base/limits.h"

namespace recourse {

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
  boost::asio::post(context_, [batch = std::move(jobs)]() mutable {
    for (Job& job : batch) job();
  });
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

// One getaddrinfo, which nothing can interrupt: it outlives the caller that stops waiting for it.
struct IoThread::Lookup {
  explicit Lookup(IoContext& context) : resolver(context) {}
  Tcp::resolver resolver;
  std::string host;
  Promise<std::vector<boost::asio::ip::address>> found;

  void Set(std::vector<boost::asio::ip::address> addresses) {
    if (!found.is_set()) found.Set(std::move(addresses));
  }
};

Task<std::vector<boost::asio::ip::address>> IoThread::Resolve(std::string host, MonoTime deadline) {
  using Addresses = std::vector<boost::asio::ip::address>;
  IoError ec;
  const auto literal = boost::asio::ip::make_address(host, ec);
  if (!ec) co_return Addresses{literal};
  const MonoTime now = clock_.Now();
  if (const auto known = names_.find(host); known != names_.end() && known->second.expires > now) {
    co_return known->second.addresses;
  }
  auto lookup = std::make_shared<Lookup>(context_);
  lookup->host = host;
  Deadline limit(wheel_, [](void* self) { static_cast<Lookup*>(self)->Set({}); }, lookup.get());
  limit.Arm(deadline);
  lookup->resolver.async_resolve(
      host, "", [this, lookup](IoError failed, const Tcp::resolver::results_type& results) {
        Addresses addresses;
        if (!failed) {
          for (const auto& entry : results) addresses.push_back(entry.endpoint().address());
        }
        if (names_.size() >= kNamesKept) names_.clear();
        names_[lookup->host] =
            Name{addresses, clock_.Now() + (addresses.empty() ? kFailedNameTtl : kNameTtl)};
        lookup->Set(std::move(addresses));
      });
  co_return co_await lookup->found.Wait();
}

}  // namespace recourse
