// Sessions of browsers: a cookie that stands for a credential shown before.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "proxy/base/clock.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/random.h"

namespace recourse {

// In memory, by the digest of the cookie. One thread. What the credential is worth is asked anew
// for each request, so a session ends with the token it was begun with.
class Sessions {
 public:
  struct Session {
    std::string name;         // of the operator
    std::string credential;   // the bearer token; empty: the client certificate
    std::string certificate;  // its name; empty: a bearer token
    std::string csrf;
    MonoTime begun{}, used{};
  };
  struct Made {
    std::string cookie, csrf;
  };

  Sessions(const Clock& clock, Random& random) : clock_(clock), random_(random) {}

  // Of more than kSessionsPerOperatorMax of one operator the one unused for longest ends, as of
  // more than kSessionsMax of all.
  Made Begin(std::string name, std::string credential, std::string certificate);
  // Null after kSessionIdle without a use, after kSessionLife, or when it never was. The pointer is
  // good until the next call.
  const Session* Find(std::string_view cookie);
  void End(std::string_view cookie);
  std::size_t size() const { return sessions_.size(); }

 private:
  using Map = std::unordered_map<Digest, Session, DigestHash>;
  std::string NewSecret();
  Map::iterator Erase(Map::iterator at);
  bool IsOver(const Session& session, MonoTime now) const;
  // Ends the one unused for longest, of `name` only if it is not empty.
  void EndOldest(const std::string& name);

  const Clock& clock_;
  Random& random_;
  Map sessions_;
};

}  // namespace recourse
