#include "tests/sim/sim_policy.h"

#include "tests/support/world.h"

namespace recourse {
namespace {

constexpr const char* kText = R"(
version: 1
backends:
  shop: { url: "http://shop.test:8080", hosts: [ shop.test ], timeout: 3s }
  bank:
    url: "http://bank.test:8080"
    hosts: [ bank.test ]
    timeout: 3s
    key_header: Idempotency-Key
tools:
  order:
    match: POST shop /orders/{ref}
    effect: write
    external_ref: answer.body#/id
    settle: { request: "GET /orders/{path.ref}", happened: answer.body#/id, absent_after: 6s }
    undo: { request: "DELETE /orders/{external_ref}", done: [ 2xx, 404 ], repeatable: true }
  pay:
    match: POST bank /charges/{ref}
    effect: write
    external_ref: answer.body#/id
    settle: { request: "GET /charges/{path.ref}", happened: answer.body#/id, absent_after: 6s }
    undo: { request: "POST /refunds/{external_ref}", repeatable: by_key }
  ship:
    match: POST shop /shipments/{ref}
    effect: write
    breaks_flow: on_failure
    external_ref: answer.body#/id
    settle: { request: "GET /shipments/{path.ref}", happened: answer.body#/id, absent_after: 6s }
    undo: { request: "POST /voids/{external_ref}" }
  tell:
    match: POST shop /messages/{ref}
    effect: write
    breaks_flow: on_unknown
    external_ref: answer.body#/id
    undo: { request: "POST /voids/{external_ref}" }
  wire:
    match: POST shop /wires/{ref}
    effect: write
    external_ref: answer.body#/id
    settle: { request: "GET /wires/{path.ref}", happened: answer.body#/id, absent_after: 6s }
    undo: { request: "DELETE /orders/{external_ref}", done: [ 2xx, 404 ], repeatable: true }
    approval: { by: [ team ], expires: 8s, hold: 500ms }
  note:
    match: POST shop /notes/{ref}
    effect: write
    undo: none
    reason: notes are harmless
  mark:
    match: POST shop /marks/{ref}
    effect: write
    undo: none
    reason: marks are harmless
  permit:
    match: POST shop /permits/{ref}
    effect: write
    external_ref: answer.body#/id
    undo: { request: "DELETE /orders/{external_ref}", done: [ 2xx, 404 ], repeatable: true }
    approval: { by: [ team ], expires: 40s, hold: 500ms }
flows:
  checkout:
    tools: [ order, pay, ship, wire, note ]
    ends_with: ship
    deadline: 20s
    on_deadline: )";

std::shared_ptr<const Policy> Made(const char* on_deadline, bool goes_on, bool asks_bank,
                                   std::string_view version) {
  const auto draft =
      std::const_pointer_cast<Policy>(PolicyOf(std::string(kText) + on_deadline + "\n"));
  draft->flow_rules.agent_may_close = true;
  draft->flow_rules.agent_may_cancel = true;
  draft->flows[0].continue_on_stuck = goes_on;
  draft->digest = Sha256(version);
  for (Tool& tool : draft->tools) {
    if (tool.undo) tool.undo->attempts_max = kSimAttemptsMax;
    if (tool.name == "pay" && !asks_bank) tool.settle.reset();
  }
  return draft;
}

std::vector<SimPolicy> Make() {
  std::vector<SimPolicy> made;
  for (const char* on_deadline : {"undo", "keep", "ask", "undo"}) {
    for (const bool goes_on : {false, true}) {
      const bool asks_bank = made.size() % 3 != 0;  // else only its key tells what a charge did
      made.push_back({Made(on_deadline, goes_on, asks_bank, "1"),
                      Made(on_deadline, goes_on, asks_bank, "2"), goes_on});
    }
  }
  return made;
}

}  // namespace

const std::vector<SimPolicy>& SimPolicies() {
  static const std::vector<SimPolicy> policies = Make();
  return policies;
}

}  // namespace recourse
