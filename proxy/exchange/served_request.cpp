#include "proxy/exchange/served_request.h"

#include <utility>

#include "proxy/exchange/observation.h"
#include "proxy/exchange/request_facts.h"

namespace recourse {
namespace {

IngressMode ModeOf(const Ingress& ingress, const Head& head) {
  if (ingress.original) return IngressMode::kRedirect;
  const bool names_host = head.form == TargetForm::kAbsolute || head.form == TargetForm::kAuthority;
  return ingress.inside || names_host ? IngressMode::kForward : IngressMode::kReverse;
}

}  // namespace

std::string ServedRequest::Payer() const {
  return std::to_string(ingress.peer) + " " + caller.identity();
}

Principal ServedRequest::Asker(const Headers& headers) const {
  return PrincipalOf(*services.install_key, caller.name(), policy().principal, headers,
                     route.query.empty() ? Pairs() : ParsePairs(route.query.substr(1)),
                     caller.facts().verified_field);
}

void ServedRequest::Begin() {
  began = Now();
  ended = {};
  view = worker.view;
  std::destroy_at(&record);
  std::construct_at(&record);
  record.original = ingress.original_text;
  record.ingress_mode = ModeOf(ingress, head);
  route.is_observed = route.sends_once = false;
  route.judge = nullptr;
  caller.Begin();
  if (ingress.is_secure) record.caller = caller.name();
  record.method.Set(head.method);
  record.trace_id.Set(TraceIdOf(head));
  if (services.tracer != nullptr) {
    trace.Begin(head.traceparent, *services.tracer, worker.span_ids, record);
  }
}

void ServedRequest::End() {
  if (ended == MonoTime{}) ended = Now();
  const auto duration = ended - began;
  if (caller.is_nobody() && !record.effect.empty()) {
    services.metrics->CountUnknownCaller(record.effect == "write");
  }
  view->metrics.Count(record, duration);
  if (trace.is_on) {
    trace.End(record, view->policy, began, ended, *services.tracer);
    const std::string tool = record.tool != nullptr ? record.tool->name : "unlisted";
    services.metrics->exemplars.Note(tool, trace.trace, trace.id, duration);
  }
  if (tap) std::exchange(tap, nullptr)->Ended();
  if (observation) {
    std::exchange(observation, nullptr)->Ended(record, duration);
  } else {
    view->log.Append(record, duration);
  }
  record.tool = nullptr;
  record.backend = nullptr;
  view.reset();
}

}  // namespace recourse
