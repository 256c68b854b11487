#include "filters/ledger/lease/clients.h"

#include "proxy/base/lease_limits.h"

namespace recourse {

void OwnClients::Add(GroupClient client) {
  const auto [known, is_new] = all_.try_emplace(client.of.operation);
  One& one = known->second;
  if (!client.joins || is_new) one.is_told = !client.joins;
  one.attempt = client.of.attempt;
  one.table = std::move(client.table);
}

void OwnClients::ToldOf(std::uint64_t joined) {
  if (const auto known = all_.find(joined); known != all_.end()) known->second.is_told = true;
}

OwnClients::News OwnClients::Look(MonoTime now) {
  News news;
  const bool is_due = now >= next_look_;
  if (is_due) next_look_ = now + limits::kClientsLookedEvery;
  for (const auto& [operation, one] : all_) {
    const AttemptId id{operation, one.attempt};
    if (is_due && !one.table->Waits(operation, nullptr)) {
      news.left.push_back(id);
    } else if (!one.is_told) {
      news.joined.push_back(id);
    }
  }
  return news;
}

// A batch that was being written when the call came may have looked before that; the one behind it
// has not, and looks at most kClientsLookedEvery late.
ClientsElsewhere::Says ClientsElsewhere::Ask(std::uint64_t stream, const StreamSign& now,
                                             MonoTime at) {
  if (!now.is_live) return Says::kIsGone;
  Seen& seen = seen_.try_emplace(stream, Seen{.since = at, .from = {}}).first->second;
  if (seen.has_told) return Says::kWaits;
  if (!seen.from && at - seen.since >= 2 * limits::kClientsLookedEvery) seen.from = now.beat;
  if (seen.from && now.beat >= *seen.from + 2) {
    seen.has_told = true;
    return Says::kNow;
  }
  return at - seen.since < limits::kClientsToldMax ? Says::kLater : Says::kUnsure;
}

}  // namespace recourse
