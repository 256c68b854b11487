// A checkout of several steps, what an agent says to it, and what an operator does to its flow.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/world.h"

namespace recourse {

inline constexpr const char* kCheckoutPolicy = R"(
version: 1
backends:
  shop: { url: "http://shop.test:8080", hosts: [ shop.test ] }
  bank: { url: "http://bank.test:8080/v1", hosts: [ bank.test ], key_header: Idempotency-Key }
tools:
  order:
    match: POST shop /orders
    effect: write
    identity: [ body#/ref ]
    external_ref: answer.body#/id
    settle: { request: "GET /orders/{body#/ref}", happened: answer.body#/id, absent_after: 5s }
    undo: { request: "DELETE /orders/{external_ref}", done: [ 2xx, 404 ], repeatable: true }
  pay:
    match: POST bank /charges
    effect: write
    identity: [ body#/ref ]
    external_ref: answer.body#/id
    undo:
      request: "POST /refunds"
      json: { charge: "{external_ref}" }
      repeatable: by_key
  ship:
    match: POST shop /shipments
    effect: write
    identity: [ body#/ref ]
    breaks_flow: on_failure
    external_ref: answer.body#/id
    undo: { request: "DELETE /shipments/{external_ref}" }
  note:
    match: POST shop /notes
    effect: write
    identity: [ body#/ref ]
    undo: none
    reason: notes are harmless
  tell:
    match: POST shop /messages
    effect: write
    identity: [ body#/ref ]
    external_ref: answer.body#/id
    breaks_flow: on_unknown
    undo: { request: "DELETE /messages/{external_ref}" }
flows:
  checkout:
    tools: [ order, pay, ship, note ]
    ends_with: ship
    deadline: 30s
    on_deadline: undo
)";

// A policy that a test goes on to change.
inline std::shared_ptr<Policy> DraftOf(const std::string& yaml) {
  return std::const_pointer_cast<Policy>(PolicyOf(yaml));
}
inline Tool& ToolOf(Policy& policy, std::string_view name) {
  for (Tool& tool : policy.tools) {
    if (tool.name == name) return tool;
  }
  RC_CHECK(false);
  return policy.tools.front();
}

// "order 1": the write that the tool of that name takes.
inline CallSpec Write(const std::string& kind, const std::string& ref = "1") {
  CallSpec call;
  call.host = kind == "charges" ? "bank.test" : "shop.test";
  call.target = "/" + kind;
  call.body = R"({"ref":")" + ref + "\"}";
  return call;
}
inline Step Created(const std::string& id) { return Respond(201, R"({"id":")" + id + "\"}"); }

// Everything that was sent: "POST /orders".
inline std::vector<std::string> Sent(const World& world) {
  std::vector<std::string> lines;
  for (const auto& call : world.upstream.writes) {
    lines.push_back(call.request.method + " " + call.request.target);
  }
  return lines;
}

// A checkout under kCheckoutPolicy whose backend does what it is asked and names what it made.
class Checkout : public World {
 public:
  explicit Checkout(std::shared_ptr<Policy> draft = DraftOf(kCheckoutPolicy))
      : World(std::move(draft)) {
    upstream.decide = [this](const HttpRequest& request) { return StepFor(request); };
  }
  // How the next requests that begin so end, first one first: "DELETE /orders".
  std::multimap<std::string, Step> instead;

  FlowState Flow(const std::string& trace = kTraceA) {
    const auto newest = ledger.NewestFlows(100);
    RC_CHECK(newest.has_value());
    FlowState found;
    for (const FlowState& state : *newest) {
      if (state.id == trace) found = state;
    }
    return found;
  }
  FlowPhase PhaseOf(const std::string& trace = kTraceA) { return Flow(trace).phase; }
  Phase StepPhase(std::size_t index) { return Flow().steps.at(index).phase; }

  Told Order(const std::string& word, const std::string& trace = kTraceA) {
    CallSpec call = Write("orders");
    call.trace = trace;
    call.headers.emplace_back("Recourse-Flow", word);
    return Call(call);
  }
  // What an operator does, from a thread of its own.
  std::expected<FlowState, std::string> Act(FlowAction::Kind kind, std::uint64_t operation = 0) {
    const auto newest = ledger.NewestFlows(1);
    RC_CHECK(newest.has_value() && !newest->empty());
    return Act({.kind = kind,
                .number = newest->back().number,
                .operation = operation,
                .reason = "by a human",
                .found = newest->back()});
  }
  std::expected<FlowState, std::string> Act(const FlowAction& action) {
    auto told = std::async(std::launch::async, [&] { return flows.operators().Act(action); });
    while (told.wait_for(std::chrono::microseconds(100)) != std::future_status::ready) {
      loop.RunReady();
    }
    return told.get();
  }

 private:
  Step StepFor(const HttpRequest& request) {
    const std::string line = request.method + " " + request.target;
    for (auto at = instead.begin(); at != instead.end(); ++at) {
      if (!line.starts_with(at->first)) continue;
      Step step = std::move(at->second);
      instead.erase(at);
      return step;
    }
    if (request.method == "DELETE") return Respond(200, "{}");
    return Created("id-" + std::to_string(++made_));
  }

  int made_ = 0;
};

}  // namespace recourse
