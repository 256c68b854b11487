#include "proxy/net/listener.h"

#include <boost/asio/post.hpp>

#include "proxy/base/log.h"

namespace recourse {

Listener::Listener(std::vector<IoThread*> threads, const Tcp::endpoint& endpoint,
                   OnConnection handler)
    : threads_(std::move(threads)),
      handler_(std::move(handler)),
      acceptor_(threads_.front()->context(), endpoint, true),
      endpoint_(acceptor_.local_endpoint()),
      pause_(threads_.front()->context()) {
  acceptor_.listen(4096);
}

void Listener::Start() { Accept(); }

void Listener::Close() {
  boost::asio::post(acceptor_.get_executor(), [this] {
    IoError ignored;
    acceptor_.close(ignored);
    pause_.cancel();
  });
}

void Listener::Accept() {
  const std::size_t index = next_;
  next_ = (next_ + 1) % threads_.size();
  acceptor_.async_accept(threads_[index]->context(), [this, index](IoError ec, TcpSocket socket) {
    if (!acceptor_.is_open()) return;
    if (ec) {
      // Out of descriptors, most likely: some connections must end first.
      Log(LogLevel::kWarn, "cannot accept a connection", {{"error", ec.message()}});
      pause_.expires_after(std::chrono::milliseconds(50));
      pause_.async_wait([this](IoError canceled) {
        if (!canceled) Accept();
      });
      return;
    }
    IoError ignored;
    socket.set_option(Tcp::no_delay(true), ignored);
    boost::asio::post(
        threads_[index]->context(),
        [this, index, moved = std::move(socket)]() mutable { handler_(index, std::move(moved)); });
    Accept();
  });
}

}  // namespace recourse
