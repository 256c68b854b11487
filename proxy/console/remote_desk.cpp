#include "proxy/console/remote_desk.h"

#include <algorithm>
#include <utility>

#include "proxy/admin/access/admin_paths.h"
#include "proxy/admin/access/operator_directory.h"
#include "proxy/base/json/json.h"

namespace recourse {
namespace {

constexpr std::size_t kPeopleMost = 64;
constexpr Millis kCountsFor{5'000};

RemoteDesk::At PersonIn(const Json& session) {
  RemoteDesk::At at{.is_known = true, .name = ScalarText(session, "name")};
  const Json* const roles = session.Find("roles");
  for (std::size_t role = 0; IsArray(roles) && role < kRoleNames.size(); ++role) {
    const auto found = std::ranges::find(roles->items, kRoleNames[role].first, &Json::text);
    if (found != roles->items.end()) at.roles.Add(kRoleNames[role].second);
  }
  return at;
}

}  // namespace

HttpRequest WithToken(HttpRequest request, std::string_view token) {
  request.headers.emplace_back("Authorization", "Bearer " + std::string(token));
  return request;
}

void RemoteDesk::Look(std::string_view token, Person& person) {
  std::vector<std::future<RemoteLedger::Said>> asked;
  for (const auto& ledger : ledgers_) {
    asked.push_back(ledger->Ask(WithToken({"GET", admin_paths::kSession, {}, {}}, token)));
  }
  for (std::size_t i = 0; i < ledgers_.size(); ++i) {
    const auto said = ledgers_[i]->Await(asked[i]);
    if (!said.away.empty()) continue;
    const auto session = said.response.status == 200 ? ParseJson(said.response.body)
                                                     : std::unexpected(Error(ErrorCode::kInternal));
    if (session) {
      person.at[ledgers_[i]->name()] = PersonIn(*session);
    } else if (said.response.status == 401) {
      person.at[ledgers_[i]->name()] = {};
    }
  }
}

AccessControl::Judged RemoteDesk::Judge(std::string_view token) {
  using Refusal = AccessControl::Refusal;
  const Digest digest = TokenDigest(token);
  auto found = people_.find(digest);
  if (found != people_.end() && clock_.Now() - found->second.asked < kCountsFor) {
    return found->second.whole;
  }
  Person person = found != people_.end() ? found->second : Person();
  Look(token, person);
  person.asked = clock_.Now();
  Operator whole;
  bool is_known = false;
  for (const auto& [ledger, at] : person.at) {
    if (!at.is_known) continue;
    if (!is_known) whole.name = at.name;
    is_known = true;
    for (const auto& [name, role] : kRoleNames) {
      if (at.roles.Has(role)) whole.roles.Add(role);
    }
  }
  if (!is_known) {
    people_.erase(digest);
    if (person.at.size() == ledgers_.size()) {
      return std::unexpected(Refusal{401, "no ledger of this console knows this token"});
    }
    return std::unexpected(Refusal{
        503, "no ledger that knows this token answers now; the log of the console says why"});
  }
  // Sessions end with the name that they were begun with.
  if (found != people_.end()) whole.name = found->second.whole.name;
  person.whole = whole;
  if (found == people_.end() && people_.size() == kPeopleMost) {
    people_.erase(
        std::ranges::min_element(people_, {}, [](const auto& one) { return one.second.asked; }));
  }
  people_[digest] = std::move(person);
  return whole;
}

bool RemoteDesk::Knows(std::string_view token) const {
  return people_.contains(TokenDigest(token));
}

const RemoteDesk::At* RemoteDesk::Find(std::string_view token, std::string_view ledger) const {
  const auto person = people_.find(TokenDigest(token));
  if (person == people_.end()) return nullptr;
  const auto at = person->second.at.find(ledger);
  return at != person->second.at.end() ? &at->second : nullptr;
}

}  // namespace recourse
