// One page and one API for several ledgers: what each of them tells an operator, and orders taken
// to the one that they are about. It holds no ledger, no secret and no operators of its own: each
// request goes on with the token that came with it, and the ledger's process judges it.
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proxy/admin/access/access_control.h"
#include "proxy/admin/access/operator_store.h"
#include "proxy/base/clock.h"
#include "proxy/base/random.h"
#include "proxy/console/merge.h"
#include "proxy/console/remote_desk.h"

namespace recourse {

// Blocking, on the thread of the admin port.
class Console {
 public:
  Console(RemoteLedgers ledgers, std::vector<std::string> hosts, const Clock& clock,
          Random& random);
  ServedAnswer Handle(const HttpRequest& request, const HttpPeer& peer);
  const RemoteLedgers& ledgers() const { return ledgers_; }

 private:
  using Visit = AccessControl::Visit;
  // A request on its way, and which ledger it names; none: empty.
  struct Order {
    const Visit& visit;
    const HttpRequest& request;
    std::string ledger{};
    Pairs query{};  // without `ledger`
  };
  struct Asked {
    std::vector<LedgerAnswer> answers;      // of those who may be read
    std::vector<std::string_view> ledgers;  // that were asked
    std::vector<RemoteState> states;
    std::optional<HttpResponse> refusal;  // what one said that refuses the question
  };

  ServedAnswer Do(const Visit& visit, const HttpRequest& request, const HttpPeer& peer,
                  std::string_view ledger);
  HttpResponse Session(const Visit& visit, const HttpRequest& request, const HttpPeer& peer);
  std::expected<void, HttpResponse> NameLedger(Order& order) const;
  HttpResponse Forward(const Order& order);
  HttpResponse List(const Order& order, const ListForm& form);
  HttpResponse FindFlow(const Order& order);
  HttpResponse NameOne() const;
  RemoteLedger* Find(std::string_view name) const;
  // What `query` gives for a ledger is asked of it; nullopt: nothing.
  Asked AskAll(const Order& order,
               const std::function<std::optional<Pairs>(std::string_view ledger)>& query);
  RemoteState StateOf(const RemoteLedger& ledger, std::string_view token) const;

  const RemoteLedgers ledgers_;
  RemoteDesk desk_;
  const std::string api_;  // its description
  OperatorStore nobody_;
  AccessControl door_;
};

}  // namespace recourse
