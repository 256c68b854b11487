// Who somebody is at each ledger of a console: they know their operators, it knows nobody.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/admin/access/access_control.h"
#include "proxy/base/clock.h"
#include "proxy/console/remote_ledger.h"

namespace recourse {

using RemoteLedgers = std::vector<std::unique_ptr<RemoteLedger>>;

// One thread.
class RemoteDesk {
 public:
  RemoteDesk(const RemoteLedgers& ledgers, const Clock& clock) : ledgers_(ledgers), clock_(clock) {}

  // By a token, which every ledger is asked about that has not told lately. What one said counts
  // on while it is away: it judges each request itself.
  AccessControl::Judged Judge(std::string_view token);

  struct At {
    bool is_known = false;
    std::string name{};  // there
    Roles roles{};
  };
  // Whether it was judged well before.
  bool Knows(std::string_view token) const;
  // Of one who was judged.
  const At* Find(std::string_view token, std::string_view ledger) const;

 private:
  struct Person {
    std::map<std::string, At, std::less<>> at;  // those that have told
    MonoTime asked{};
    Operator whole;  // with all roles
  };
  void Look(std::string_view token, Person& person);

  const RemoteLedgers& ledgers_;
  const Clock& clock_;
  std::map<Digest, Person> people_;  // by digest of the token; at most kPeopleMost
};

// As a token is shown.
HttpRequest WithToken(HttpRequest request, std::string_view token);

}  // namespace recourse
