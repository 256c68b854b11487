// Accepts client connections and hands them to the I/O threads in turn.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "proxy/net/loop/io_thread.h"

namespace recourse {

class Listener {
 public:
  // Called on thread `index` with a connected socket.
  using OnConnection = std::function<void(std::size_t index, Socket socket)>;

  // Listens at once on the first thread; throws boost::system::system_error (start-up only).
  // One acceptor hands out sockets in turn: SO_REUSEPORT hashes a pod's few connections unevenly.
  Listener(std::vector<IoThread*> threads, const Tcp::endpoint& endpoint, OnConnection handler);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Also when it is closed. Thread-safe.
  const Tcp::endpoint& endpoint() const { return endpoint_; }
  // Call before the threads start, or on the first thread.
  void Start();
  // Stops accepting. Thread-safe.
  void Close();

 private:
  struct Acceptor;
  void AcceptSome();
  // Clients and probes go before what is only kept for later.
  void FreeFiles();
  void HandOut(Socket socket);

  std::vector<IoThread*> threads_;
  const OnConnection handler_;
  const std::unique_ptr<Acceptor> acceptor_;
  const Tcp::endpoint endpoint_;
  Deadline pause_;
  std::size_t next_ = 0;
};

}  // namespace recourse
