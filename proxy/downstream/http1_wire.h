// One agent's connection of HTTP/1.1: its bytes, its deadline, and what is true of all its
// requests.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "filters/ledger/ledger.h"
#include "proxy/exchange/client_side.h"
#include "proxy/exchange/ingress.h"
#include "proxy/exchange/services.h"
#include "proxy/net/message/body_decoder.h"

namespace recourse {

struct Http1Wire {
  Http1Wire(Worker& of, Socket socket, Ingress way)
      : worker(of),
        client(std::move(socket), of.thread.reactor(), of.thread.wheel()),
        ingress(std::move(way)),
        meets_opening(ingress.original.has_value()) {
    in.pool = &of.thread.buffers();
  }

  // No further request is served on it.
  bool IsLast() const {
    return worker.services.draining ||
           served + 1 >= worker.services.bounds.requests_per_connection_max;
  }

  // There is one deadline for both directions, and what is due first ends both: while a body
  // streams, what is sent meanwhile has its own time, and neither puts off the other's.
  void LimitReading(MonoTime due) {
    read_due = due;
    Limit();
  }
  void LimitTaking(Millis most) {
    take_due = Now() + most;
    Limit();
  }
  void EndTaking() {
    take_due = kNotDue;
    Limit();
  }
  void Limit() {
    const MonoTime due = std::min(read_due, take_due);
    if (due == kNotDue) return client.deadline.Disarm();
    client.deadline.Arm(due);
  }
  MonoTime Now() const { return worker.thread.clock().Now(); }

  static constexpr MonoTime kNotDue = MonoTime::max();

  Worker& worker;
  Connection client;
  ReadBuffer in;
  Ingress ingress;
  std::size_t served = 0;      // requests, before the one at work
  bool meets_opening = false;  // the first bytes of a tunnel, or of who was redirected, are awaited
  std::optional<AttemptId> unread;  // answered last, until the client shows that it goes on
  Drainable* running = nullptr;
  MonoTime read_due = kNotDue;  // when more of a body must have come, while one is read
  MonoTime take_due = kNotDue;  // when the client must have taken what is being sent
};

}  // namespace recourse
