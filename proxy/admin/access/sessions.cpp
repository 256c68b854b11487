#include "proxy/admin/access/sessions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "proxy/base/crypto/aead.h"
#include "proxy/base/crypto/base64url.h"
#include "proxy/base/limits.h"

namespace recourse {

std::string Sessions::NewSecret() {
  std::array<unsigned char, limits::kOperatorTokenBytes> bytes{};
  random_.Fill(bytes);
  return ToBase64Url({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

bool Sessions::IsOver(const Session& session, MonoTime now) const {
  return now - session.used >= limits::kSessionIdle || now - session.begun >= limits::kSessionLife;
}

Sessions::Map::iterator Sessions::Erase(Map::iterator at) {
  Wipe(at->second.credential);
  return sessions_.erase(at);
}

void Sessions::EndOldest(const std::string& name) {
  auto oldest = sessions_.end();
  for (auto at = sessions_.begin(); at != sessions_.end(); ++at) {
    if (!name.empty() && at->second.name != name) continue;
    if (oldest == sessions_.end() || at->second.used < oldest->second.used) oldest = at;
  }
  if (oldest != sessions_.end()) Erase(oldest);
}

Sessions::Made Sessions::Begin(std::string name, std::string credential, std::string certificate) {
  const MonoTime now = clock_.Now();
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    at = IsOver(at->second, now) ? Erase(at) : std::next(at);
  }
  const auto own = std::count_if(sessions_.begin(), sessions_.end(),
                                 [&](const auto& entry) { return entry.second.name == name; });
  if (static_cast<std::size_t>(own) >= limits::kSessionsPerOperatorMax) EndOldest(name);
  if (sessions_.size() >= limits::kSessionsMax) EndOldest({});
  const Made made{NewSecret(), NewSecret()};
  sessions_[Sha256(made.cookie)] = {
      std::move(name), std::move(credential), std::move(certificate), made.csrf, now, now};
  return made;
}

const Sessions::Session* Sessions::Find(std::string_view cookie) {
  const auto found = sessions_.find(Sha256(cookie));
  if (found == sessions_.end()) return nullptr;
  const MonoTime now = clock_.Now();
  if (IsOver(found->second, now)) {
    Erase(found);
    return nullptr;
  }
  found->second.used = now;
  return &found->second;
}

void Sessions::End(std::string_view cookie) {
  const auto found = sessions_.find(Sha256(cookie));
  if (found != sessions_.end()) Erase(found);
}

}  // namespace recourse
