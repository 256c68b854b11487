// Accepts client connections and hands them to the I/O threads in turn.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <vector>

#include "proxy/net/io_thread.h"

namespace recourse {

class Listener {
 public:
  // Called on thread `index` with a connected socket of that thread's context.
  using OnConnection = std::function<void(std::size_t index, TcpSocket socket)>;

  // Listens at once on the first thread; throws boost::system::system_error (start-up only).
  // One acceptor hands out sockets in turn: SO_REUSEPORT hashes a pod's few connections unevenly.
  Listener(std::vector<IoThread*> threads, const Tcp::endpoint& endpoint, OnConnection handler);

  // Also when it is closed. Thread-safe.
  const Tcp::endpoint& endpoint() const { return endpoint_; }
  // Call before the threads start, or on the first thread.
  void Start();
  // Stops accepting. Thread-safe.
  void Close();

 private:
  void Accept();

  std::vector<IoThread*> threads_;
  const OnConnection handler_;
  boost::asio::basic_socket_acceptor<Tcp, IoContext::executor_type> acceptor_;
  const Tcp::endpoint endpoint_;
  boost::asio::steady_timer pause_;
  std::size_t next_ = 0;
};

}  // namespace recourse
