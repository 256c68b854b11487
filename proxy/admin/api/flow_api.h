// The admin API's part about flows.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "filters/ledger/ledger.h"
#include "filters/saga/flow_operator.h"
#include "proxy/admin/access/access_control.h"
#include "proxy/admin/access/problem.h"
#include "proxy/admin/views/flow_view.h"
#include "proxy/admin/views/pod_names.h"
#include "proxy/base/clock.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// GET /flows, /flows/{id}, /flows/{id}/preview; POST /flows/close, /flows/{id}/close, cancel, undo,
// retry and resolve. Whoever calls it has checked what the operator may do. Blocking, on the admin
// thread.
class FlowApi {
 public:
  struct Parts {
    Ledger& ledger;
    FlowOperator& flows;
    const Clock& clock;
    PolicyOfVersion policy;
    std::function<bool()> is_observing;  // observe mode sends nothing of its own
  };
  explicit FlowApi(Parts parts) : parts_(std::move(parts)), pods_(parts_.ledger) {}

  // The endpoint is one of flows.
  HttpResponse Handle(const AccessControl::Visit& visit, const HttpRequest& request);

 private:
  HttpResponse List(std::string_view query);
  HttpResponse CloseStopped(std::string_view query, const HttpRequest& request,
                            const Operator& who);
  // The flow that an operator means: by its number, else by its name if that is of one flow only.
  std::expected<FlowState, HttpResponse> Find(const std::string& id);
  std::expected<std::vector<FlowState>, HttpResponse> NotOver();
  Result<FlowView> View(const FlowState& state);
  HttpResponse Show(const FlowState& state, bool as_preview);
  HttpResponse Act(FlowAction::Kind kind, FlowState state, const HttpRequest& request,
                   const Operator& who);
  HttpResponse Resolve(FlowState state, const HttpRequest& request, const Operator& who);
  HttpResponse Do(FlowAction action, FlowState state);

  const Parts parts_;
  PodNames pods_;
};

// Of the lists that it answers.
std::vector<JsonShape> FlowPageShapes();

}  // namespace recourse
