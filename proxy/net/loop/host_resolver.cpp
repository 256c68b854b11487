#include "proxy/net/loop/host_resolver.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <utility>

#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/post_job.h"
#include "proxy/base/thread_name.h"
#include "proxy/net/loop/socket.h"

namespace recourse {
namespace {

// Blocks for as long as the system's resolver likes.
HostResolver::Addresses AddressesOf(boost::asio::thread_pool& thread, const std::string& host) {
  Tcp::resolver resolver(thread);
  IoError failed;
  HostResolver::Addresses addresses;
  for (const auto& found : resolver.resolve(host, "", failed)) {
    if (addresses.size() == limits::kAddressesPerNameMax) break;
    addresses.push_back(found.endpoint().address());
  }
  return addresses;
}

}  // namespace

struct HostResolver::Helper {
  boost::asio::thread_pool thread{1};
  std::size_t at_work = 0;
};

// Somebody who waits for a look-up, which nothing can interrupt and which may outlive the waiting.
struct HostResolver::Asker {
  explicit Asker(DeadlineWheel& wheel) : limit(wheel, &Asker::GiveUp, this) {}
  static void GiveUp(void* self) { static_cast<Asker*>(self)->found.Set({}); }

  Promise<Addresses> found;
  Deadline limit;
};

HostResolver::HostResolver(Executor& executor, DeadlineWheel& wheel, const Clock& clock)
    : executor_(executor), wheel_(wheel), clock_(clock) {}

HostResolver::~HostResolver() = default;

// Null when there is none and the system gives no thread.
HostResolver::Helper* HostResolver::LeastBusyHelper() {
  const auto least =
      std::min_element(helpers_.begin(), helpers_.end(),
                       [](const auto& a, const auto& b) { return a->at_work < b->at_work; });
  if (least != helpers_.end() &&
      ((*least)->at_work == 0 || helpers_.size() == limits::kLookupThreads)) {
    return least->get();
  }
  try {
    Helper* const helper = helpers_.emplace_back(std::make_unique<Helper>()).get();
    boost::asio::post(helper->thread, [] { NameThread("recourse-names"); });
    return helper;
  } catch (const std::exception& error) {
    Log(LogLevel::kWarn, "cannot start a thread to look up names", {{"error", error.what()}});
    return helpers_.empty() ? nullptr : helpers_.front().get();
  }
}

void HostResolver::StartLookup(const std::string& host) {
  Helper* const helper = LeastBusyHelper();
  if (helper == nullptr) {
    PostJob(executor_, [this, host] { EndLookup(host, {}); });
    return;
  }
  ++helper->at_work;
  boost::asio::post(helper->thread, [this, host, helper] {
    PostJob(executor_,
            [this, host, helper, addresses = AddressesOf(helper->thread, host)]() mutable {
              --helper->at_work;
              EndLookup(host, std::move(addresses));
            });
  });
}

void HostResolver::EndLookup(const std::string& host, Addresses addresses) {
  if (names_.size() >= kNamesKept) names_.clear();
  const Millis ttl = addresses.empty() ? kFailedNameTtl : kNameTtl;
  names_[host] = Name{addresses, clock_.Now() + ttl};
  auto waiting = waiting_.extract(host);
  for (Asker* const asker : waiting.mapped()) asker->found.Set(addresses);
}

Task<HostResolver::Addresses> HostResolver::Resolve(std::string host, MonoTime deadline) {
  IoError ec;
  const auto literal = boost::asio::ip::make_address(host, ec);
  if (!ec) co_return Addresses{literal};
  const MonoTime now = clock_.Now();
  if (const auto known = names_.find(host); known != names_.end() && known->second.expires > now) {
    co_return known->second.addresses;
  }
  Asker asker(wheel_);
  asker.limit.Arm(deadline);
  const auto [waiting, is_first] = waiting_.try_emplace(host);
  waiting->second.push_back(&asker);
  if (is_first) StartLookup(host);
  Addresses addresses = co_await asker.found.Wait();
  // Still there when the deadline came first.
  if (const auto still = waiting_.find(host); still != waiting_.end()) {
    std::erase(still->second, &asker);
  }
  co_return addresses;
}

}  // namespace recourse
