// Idle upstream connections for reads, newest first, per backend; one pool per I/O thread.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/net/loop/io_thread.h"

namespace recourse {

class ConnectionPool {
 public:
  explicit ConnectionPool(IoThread& thread) : thread_(thread) {}

  // An idle connection that was not closed and has nothing unread, or null. A connection made under
  // another TLS set-up than the backend's present one is not given out. Each is looked at, however
  // short it was idle: what came behind the last answer would be read as the next one.
  std::unique_ptr<Connection> Take(const Backend& backend, MonoTime now);
  // Keeps a connection on which the last answer was read whole and nothing more came, for `idle`.
  void Give(const Backend& backend, std::unique_ptr<Connection> connection, Millis idle,
            MonoTime now);
  // Closes what has been idle too long, a bounded number; upkeep of the thread. True: some are
  // left.
  bool Sweep();
  // Gives none of them out any more, and closes a bounded number now, the others with the sweeps:
  // what the policy or a certificate now says was not asked when they were opened, or there are no
  // files left. False: there was none.
  bool Clear();
  std::size_t size() const { return size_; }

 private:
  struct Idle {
    std::unique_ptr<Connection> connection;
    MonoTime until;
  };

  std::vector<Idle>& StackOf(const Backend& backend);
  void CloseSome(std::size_t left);

  IoThread& thread_;
  // By the backend of the policy in force: whoever brings in another one clears the pool.
  std::unordered_map<const Backend*, std::vector<Idle>> backends_;
  struct {
    const Backend* backend = nullptr;
    std::vector<Idle>* stack = nullptr;
  } last_;
  std::size_t size_ = 0;
  std::vector<std::unique_ptr<Connection>> closing_;
};

}  // namespace recourse
