#include "proxy/cli/ledger_states.h"

#include <ostream>
#include <utility>

#include "proxy/cli/api_call.h"
#include "proxy/config/config.h"

namespace recourse {

void LedgerStates::Tell(const Json& page) {
  const Json* const ledgers = page.Find("ledgers");
  if (!IsArray(ledgers)) return;
  std::map<std::string, std::string> lacking;
  for (const Json& ledger : ledgers->items) {
    const std::string state = Printable(ledger, "state");
    if (state == "up") continue;
    const std::string why = Printable(ledger, "why");
    lacking[Printable(ledger, "name")] =
        (state == "refused" ? "refused" : "is " + state) + (why.empty() ? "" : ": " + why);
  }
  for (const auto& [name, said] : lacking) {
    const auto known = lacking_.find(name);
    if (known != lacking_.end() && known->second == said) continue;
    err_ << "recourse: ledger " << name << " " << said << "; what it holds is not listed\n";
  }
  for (const auto& [name, said] : lacking_) {
    if (!lacking.contains(name)) err_ << "recourse: ledger " << name << " is back\n";
  }
  lacking_ = std::move(lacking);
  is_nobody_there_ = !ledgers->items.empty() && lacking_.size() == ledgers->items.size();
}

int LedgerStates::exit_code() const { return is_nobody_there_ ? kExitRuntime : kExitOk; }

}  // namespace recourse
