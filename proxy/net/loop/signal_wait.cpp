#include "proxy/net/loop/signal_wait.h"

#include <signal.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace recourse {

struct SignalWait::Impl {
  void HearSignal() {
    signals.async_wait([this](const boost::system::error_code& error, int signal) {
      if (error) return;
      news.signal = signal;
      is_over = true;
      HearSignal();
    });
  }
  void HearOfFiles() {
    files.async_read_some(boost::asio::buffer(dropped),
                          [this](const boost::system::error_code& error, std::size_t) {
                            if (error) return;
                            news.has_files = true;
                            is_over = true;
                            HearOfFiles();
                          });
  }

  boost::asio::io_context context{1};
  boost::asio::signal_set signals{context};
  boost::asio::posix::stream_descriptor files{context};
  boost::asio::steady_timer limit{context};
  sigset_t mask{};
  std::array<char, 4096> dropped{};
  News news;  // of this Wait()
  bool is_over = false;
};

SignalWait::SignalWait(std::initializer_list<int> signals, int files)
    : impl_(std::make_unique<Impl>()) {
  sigemptyset(&impl_->mask);
  for (const int signal : signals) {
    sigaddset(&impl_->mask, signal);
    impl_->signals.add(signal);
  }
  impl_->HearSignal();
  if (files < 0) return;
  impl_->files.assign(files);
  impl_->HearOfFiles();
}

SignalWait::~SignalWait() = default;

// A handler of a signal would interrupt what else the thread does, so they are let through here
// alone.
SignalWait::News SignalWait::Wait(Millis longest) {
  impl_->news = {};
  impl_->is_over = false;
  impl_->limit.expires_after(longest);
  impl_->limit.async_wait([this](const boost::system::error_code& error) {
    if (!error) impl_->is_over = true;
  });
  pthread_sigmask(SIG_UNBLOCK, &impl_->mask, nullptr);
  while (!impl_->is_over) impl_->context.run_one();
  pthread_sigmask(SIG_BLOCK, &impl_->mask, nullptr);
  return impl_->news;
}

void SignalWait::Wake() {
  boost::asio::post(impl_->context, [this] {
    impl_->news.is_woken = true;
    impl_->is_over = true;
  });
}

}  // namespace recourse
