#include "filters/ledger/lease/clients.h"

#include <algorithm>

#include "proxy/base/lease_limits.h"

namespace recourse {

void OwnClients::Add(GroupClient client) {
  const std::uint64_t operation = client.of.operation;
  const auto [known, is_new] = all_.try_emplace(operation);
  known->second = {client.of, std::move(client.table)};
  if (!client.joins) {
    joined_.erase(operation);
  } else if (is_new) {
    joined_.insert(operation);
  }
}

void OwnClients::Forget(std::uint64_t operation) {
  all_.erase(operation);
  joined_.erase(operation);
}

void OwnClients::Clear() {
  all_.clear();
  joined_.clear();
}

OwnClients::News OwnClients::Look(MonoTime now) {
  News news;
  if (now >= next_look_) {
    next_look_ = now + limits::kClientsLookedEvery;
    for (const auto& [operation, one] : all_) {
      if (!one.table->Waits(operation, nullptr)) news.left.push_back(one.of);
    }
  }
  for (const std::uint64_t operation : joined_) {
    const bool has_left =
        std::ranges::find(news.left, operation, &AttemptId::operation) != news.left.end();
    if (!has_left) news.joined.push_back(all_.at(operation).of);
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
