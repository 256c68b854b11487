#include "proxy/net/loop/listener.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <system_error>

#include "proxy/base/log/log.h"
#include "proxy/base/post_job.h"

namespace recourse {
namespace {

// Those who are served already go first then.
constexpr int kAcceptsPerTurn = 16;
constexpr Millis kPause{50};

// Only one connection is lost by it (accept(2)). By anything else they all may be, and for long.
bool IsOfOneConnection(int error) {
  switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENOPROTOOPT:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct Listener::Acceptor {
  Acceptor(boost::asio::io_context& context, const Tcp::endpoint& endpoint)
      : listening(context, endpoint.protocol(), Socket::ListeningAt(endpoint).Release()) {}
  Tcp::acceptor listening;
};

Listener::Listener(std::vector<IoThread*> threads, const Tcp::endpoint& endpoint,
                   OnConnection handler)
    : threads_(std::move(threads)),
      handler_(std::move(handler)),
      acceptor_(std::make_unique<Acceptor>(threads_.front()->context(), endpoint)),
      endpoint_(acceptor_->listening.local_endpoint()),
      pause_(
          threads_.front()->wheel(), [](void* self) { static_cast<Listener*>(self)->Start(); },
          this) {}

Listener::~Listener() = default;

void Listener::Start() {
  acceptor_->listening.async_wait(Tcp::acceptor::wait_read, [this](const IoError& error) {
    if (!error) AcceptSome();
  });
}

void Listener::Close() {
  PostJob(*threads_.front(), [this] {
    pause_.Disarm();
    IoError ignored;
    acceptor_->listening.close(ignored);
  });
}

// Not by async_accept: that makes no socket which programs started by us do not inherit, and has
// the context watch it, which the reactor of its own thread is to do.
void Listener::AcceptSome() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (!acceptor_->listening.is_open()) return;
    const int fd = ::accept4(acceptor_->listening.native_handle(), nullptr, nullptr,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    const int error = fd >= 0 ? 0 : errno;
    if (fd >= threads_.front()->files().short_from() || AreFilesShort(error)) FreeFiles();
    if (fd >= 0) {
      HandOut(Socket(fd));
    } else if (error == EAGAIN || error == EWOULDBLOCK) {
      break;
    } else if (!IsOfOneConnection(error)) {
      // Out of descriptors, most likely: some connections must end first.
      const std::string reason = std::system_category().message(error);
      Log(LogLevel::kWarn, "cannot accept a connection", {{"error", reason}});
      return pause_.Arm(threads_.front()->clock().Now() + kPause);
    }
  }
  Start();
}

void Listener::FreeFiles() {
  threads_.front()->files().Free();
  for (std::size_t i = 1; i < threads_.size(); ++i) {
    PostJob(*threads_[i], [thread = threads_[i]] { thread->files().Free(); });
  }
}

void Listener::HandOut(Socket socket) {
  const std::size_t index = next_;
  next_ = (next_ + 1) % threads_.size();
  SendAtOnce(socket.fd());
  if (index == 0) return handler_(index, std::move(socket));
  PostJob(*threads_[index], [this, index, moved = std::move(socket)]() mutable {
    handler_(index, std::move(moved));
  });
}

}  // namespace recourse
