// Addresses of hosts for one I/O thread, which never blocks for them.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"
#include "proxy/net/loop/deadline_wheel.h"

namespace recourse {

// Belongs to the thread of `executor` and `wheel`. Its end waits for the look-ups under way.
class HostResolver {
 public:
  using Addresses = std::vector<boost::asio::ip::address>;

  HostResolver(Executor& executor, DeadlineWheel& wheel, const Clock& clock);
  ~HostResolver();
  HostResolver(const HostResolver&) = delete;
  HostResolver& operator=(const HostResolver&) = delete;

  // Addresses of a host, from a cache of kNamesKept for up to kNameTtl. IP literals need no lookup.
  // Empty on failure and at `deadline`. Runs getaddrinfo on one of kLookupThreads, never here, and
  // once for all who wait for the same name: a name server that is slow for one name holds up no
  // other.
  Task<Addresses> Resolve(std::string host, MonoTime deadline);
  // The next Resolve() of it asks anew.
  void Forget(const std::string& host) { names_.erase(host); }

 private:
  static constexpr Millis kNameTtl{5'000};
  static constexpr Millis kFailedNameTtl{500};
  static constexpr std::size_t kNamesKept = 1'024;
  struct Name {
    Addresses addresses;
    MonoTime expires;
  };
  struct Asker;
  // A thread for blocking look-ups; more are made only while all that exist are at work.
  struct Helper;
  void StartLookup(const std::string& host);
  void EndLookup(const std::string& host, Addresses addresses);
  Helper* LeastBusyHelper();

  Executor& executor_;
  DeadlineWheel& wheel_;
  const Clock& clock_;
  std::unordered_map<std::string, Name> names_;
  std::unordered_map<std::string, std::vector<Asker*>> waiting_;  // by name being looked up
  std::vector<std::unique_ptr<Helper>> helpers_;  // joined before anything above goes
};

}  // namespace recourse
