// What is known of one request, from its head to its last log line; whatever carried it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "proxy/exchange/call_trace.h"
#include "proxy/exchange/ingress.h"
#include "proxy/exchange/request_caller.h"
#include "proxy/exchange/route.h"
#include "proxy/exchange/services.h"
#include "proxy/exchange/traffic_tap.h"
#include "proxy/net/http1/message_head.h"

namespace recourse {

class Observation;

// One at a time on a connection of HTTP/1.1, and kept for the next one. Belongs to one I/O thread.
struct ServedRequest {
  // All outlive it.
  ServedRequest(Worker& of, const Ingress& way)
      : worker(of), services(of.services), ingress(way), caller(of.services.uncertified) {}

  // A head has come, or what stands for one; and all of its answer has gone out.
  void Begin();
  void End();
  MonoTime Now() const { return worker.thread.clock().Now(); }
  const Policy& policy() const { return *view->policy; }
  // Whose part of the memory for calls it takes: a name that costs nothing earns no other one.
  std::string Payer() const;
  // Who makes the call; `headers`: of its head.
  Principal Asker(const Headers& headers) const;

  Worker& worker;
  Services& services;
  const Ingress& ingress;
  Head head;  // its views stand until more of the body is read than came along
  Route route;
  RequestCaller caller;
  CallTrace trace;
  RequestRecord record;                      // what access log, metrics and span say of it
  std::shared_ptr<PolicyView> view;          // between requests: none
  std::shared_ptr<Observation> observation;  // of a write of observe mode: writes the log line
  std::unique_ptr<TrafficTap> tap;           // of observe mode; null: nobody learns of it
  MonoTime began{};
  MonoTime ended{};  // not zero: the present, as nothing was awaited since
};

}  // namespace recourse
