#include "proxy/net/loop/loop_thread.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <iterator>
#include <utility>

#include "proxy/base/frame_arena.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

constexpr int kJobsPerTurn = 4;

}  // namespace

// Only one thread uses the objects of a context, so they need no locks. Posting keeps its own.
LoopThread::LoopThread()
    : context_(std::make_unique<boost::asio::io_context>(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO)) {}

LoopThread::~LoopThread() { Join(); }

void LoopThread::Start(const std::string& name, std::function<void()> first) {
  thread_ = std::thread([this, name, first = std::move(first)] {
    NameThread(name);
    const FrameArena frames;
    if (first) first();
    const auto stays = boost::asio::make_work_guard(*context_);
    context_->run();
  });
}

void LoopThread::Stop() { context_->stop(); }

void LoopThread::Join() {
  if (thread_.joinable()) thread_.join();
}

void LoopThread::Post(std::vector<Job> jobs) {
  boost::asio::post(*context_, [this, jobs = std::move(jobs)]() mutable {
    const bool is_running = !posted_.empty();
    std::move(jobs.begin(), jobs.end(), std::back_inserter(posted_));
    if (!is_running) RunPosted();
  });
}

// A commit of the ledger wakes as many writes as were in its batch. Sockets get their turn between
// a few of them, or a read would wait for all.
void LoopThread::RunPosted() {
  for (int i = 0; i < kJobsPerTurn && !posted_.empty(); ++i) {
    Job job = std::move(posted_.front());
    posted_.pop_front();
    job();
  }
  if (!posted_.empty()) boost::asio::post(*context_, [this] { RunPosted(); });
}

}  // namespace recourse
