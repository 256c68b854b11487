#include "proxy/console/remote_ledger.h"

#include <chrono>
#include <utility>

#include "proxy/base/json/json.h"
#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"
#include "proxy/cli/api_call.h"

namespace recourse {
namespace {

constexpr int kStepSeconds = 5;
// Of one that did not answer last.
constexpr Millis kPatienceIfAway{500};

// A process whose database is away says so.
std::string WhyAway(const HttpResponse& response) {
  if (response.status < 500) return {};
  const auto json = ParseJson(response.body);
  const std::string detail = json ? ScalarText(*json, "detail") : std::string();
  return detail.empty() ? "it answers with status " + std::to_string(response.status) : detail;
}

}  // namespace

RemoteLedger::RemoteLedger(std::string name, ApiClient client, HttpPlace place)
    : name_(std::move(name)),
      client_(std::move(client)),
      place_(std::move(place)),
      thread_([this] { Run(); }) {}

RemoteLedger::~RemoteLedger() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::string RemoteLedger::away() const {
  const std::lock_guard lock(mutex_);
  return away_;
}

void RemoteLedger::Become(std::string why) {
  const std::lock_guard lock(mutex_);
  if (away_.empty() != why.empty()) {
    Log(why.empty() ? LogLevel::kInfo : LogLevel::kWarn,
        why.empty() ? "a ledger of this console answers again" : "a ledger of this console is away",
        {{"ledger", name_}, {"reason", why}});
  }
  away_ = std::move(why);
}

std::future<RemoteLedger::Said> RemoteLedger::Ask(HttpRequest request) {
  std::promise<Said> done;
  auto asked = done.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (!away_.empty() && is_busy_) {  // whoever asked before waits still
      done.set_value({.away = away_});
      return asked;
    }
    queue_.push_back({std::move(request), std::move(done)});
    is_busy_ = true;
  }
  wake_.notify_all();
  return asked;
}

RemoteLedger::Said RemoteLedger::Await(std::future<Said>& asked, Millis patience) {
  const bool was_away = !away().empty();
  if (asked.wait_for(was_away ? kPatienceIfAway : patience) == std::future_status::ready) {
    return asked.get();
  }
  if (!was_away) Become("it does not answer in time");
  return {.away = away()};
}

void RemoteLedger::Run() {
  NameThread("recourse-ledger");
  for (;;) {
    std::unique_lock lock(mutex_);
    is_busy_ = !queue_.empty();
    wake_.wait(lock, [this] { return is_ending_ || !queue_.empty(); });
    if (is_ending_) return;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Said said = Do(job.request);
    Become(said.away.empty() ? WhyAway(said.response) : said.away);
    job.done.set_value(std::move(said));
  }
}

RemoteLedger::Said RemoteLedger::Do(const HttpRequest& request) {
  if (auto proven = ProveAdmin(client_, place_); !proven) return {.away = proven.error()};
  auto response = Fetch(place_, request, kStepSeconds);
  if (!response) return {.away = response.error()};
  return {.response = std::move(*response)};
}

}  // namespace recourse
