// Client connections that wait for a request, so that they can make room for somebody who has one.
#pragma once

#include <boost/intrusive/list.hpp>

#include "proxy/exchange/connection_limiter.h"

namespace recourse {

// A connection while it waits. Belongs to one I/O thread; leaves its list when destroyed.
class IdleConnection : public boost::intrusive::list_base_hook<
                           boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  virtual bool IsOf(const ConnectionLimiter::Address& peer) const = 0;
  // Ends it and gives its place back at once. False: a request has come meanwhile.
  virtual bool MakeRoom() = 0;

 protected:
  ~IdleConnection() = default;
};

// The longest waiting first. One per I/O thread.
class IdleConnections {
 public:
  // `has_asked`: it has been of use, so that those who only hold their place go before it.
  void Add(IdleConnection& connection, bool has_asked) {
    (has_asked ? kept_ : silent_).push_back(connection);
  }
  // Ends one, of `peer` if not null. False: none of the oldest kIdleLooksMax can go.
  bool MakeRoom(const ConnectionLimiter::Address* peer) {
    return MakeRoomIn(silent_, peer) || MakeRoomIn(kept_, peer);
  }

 private:
  using List = boost::intrusive::list<IdleConnection, boost::intrusive::constant_time_size<false>>;
  static bool MakeRoomIn(List& list, const ConnectionLimiter::Address* peer) {
    std::size_t looks = 0;
    for (auto at = list.begin(); at != list.end() && looks < limits::kIdleLooksMax; ++looks) {
      IdleConnection& connection = *at++;
      if ((peer == nullptr || connection.IsOf(*peer)) && connection.MakeRoom()) return true;
    }
    return false;
  }

  List silent_, kept_;
};

}  // namespace recourse
