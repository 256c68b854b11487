// The policy that the tests of the whole chain run under.
#pragma once

namespace recourse {

inline constexpr const char* kShopPolicy = R"(
version: 1
unlisted: { reads: pass, writes: guard }
backends:
  orders:   { url: "http://orders.test:8080", hosts: [ orders.test ] }
  payments:
    url: "http://payments.test:8080/api"
    hosts: [ payments.test ]
    key_header: Idempotency-Key
  wallets:
    url: "http://wallets.test:8080"
    hosts: [ wallets.test ]
    key_header: PayPal-Request-Id
tools:
  orders.create:
    match: POST orders /orders
    effect: write
    external_ref: answer.body#/id
    settle:
      request: "GET /orders?item={body#/item}"
      happened: answer.body#/items/0/id
      absent_after: 5s
    undo:   { request: "DELETE /orders/{external_ref}", repeatable: true }
  orders.note:
    match: POST orders /notes
    effect: write
    undo: none
    reason: notes are harmless
    identity: [ body#/order ]
    timeout: 20s
  orders.run:
    match: POST orders /runs
    effect: write
    undo: none
    reason: test
    scope: "header:X-Run-Id"
  orders.once:
    match: POST orders /once
    effect: write
    undo: none
    reason: test
    across_traces: never
  orders.pay:
    match: POST orders /pay
    effect: write
    undo: none
    reason: test
    approval: { by: [ team-finance ], when: "body#/amount > 1000" }
  orders.mail:
    match: POST orders /mail
    effect: write
    identity: [ body#/to ]
    undo: none
    approval: { by: [ team-support ] }
  payments.transfer:
    match: POST payments /transfers
    effect: write
    undo: none
    reason: test
    settle: { request: "GET /transfers/{key}", happened: answer.body#/id, absent_after: 5s }
  payments.charge:
    match: POST payments /charges
    effect: write
    undo: none
    reason: test
)";

}  // namespace recourse
