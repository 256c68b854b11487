#include "proxy/mcp/calls_in_flight.h"

#include <algorithm>

#include "proxy/base/message_limits.h"

namespace recourse {

CallsInFlight::Write::Write(CallsInFlight& calls, Name name, std::string content,
                            CallClient& client)
    : calls_(calls), name_(std::move(name)), content_(std::move(content)), client_(client) {
  const std::scoped_lock lock(calls_.mutex_);
  calls_.At(name_.text).writes.push_back(this);
  if (!content_.empty()) calls_.equal_.emplace(content_, this);
}

CallsInFlight::Write::~Write() {
  const std::scoped_lock lock(calls_.mutex_);
  std::erase(calls_.At(name_.text).writes, this);
  calls_.Drop(name_.text);
  if (content_.empty()) return;
  const auto [begin, end] = calls_.equal_.equal_range(content_);
  calls_.equal_.erase(
      std::find_if(begin, end, [this](const auto& entry) { return entry.second == this; }));
}

bool CallsInFlight::Write::IsOnly() const {
  const std::scoped_lock lock(calls_.mutex_);
  return calls_.names_.at(name_.text).requests == 1;
}

bool CallsInFlight::Write::HasTwin() const {
  const std::scoped_lock lock(calls_.mutex_);
  const auto [begin, end] = calls_.equal_.equal_range(content_);
  return std::any_of(begin, end, [this](const auto& entry) {
    const Write& other = *entry.second;
    return &other != this && other.name_.principal == name_.principal &&
           !other.client_.MayHaveLeft();
  });
}

// No cancellation comes between the mark and what takes it back.
bool CallsInFlight::Write::Answered(AttemptId answered, MonoTime now,
                                    const std::function<void()>& mark) {
  const std::scoped_lock lock(calls_.mutex_);
  if (client_.has_given_up()) return false;
  is_answered_ = true;
  mark();
  if (calls_.answers_.size() >= limits::kLateCallsMax) calls_.answers_.pop_front();
  calls_.answers_.push_back({name_, answered, now});
  return true;
}

CallsInFlight::Read::Read(CallsInFlight& calls, std::string name)
    : calls_(calls), name_(std::move(name)) {
  if (name_.empty()) return;
  const std::scoped_lock lock(calls_.mutex_);
  ++calls_.At(name_).reads;
}

CallsInFlight::Read::~Read() {
  if (name_.empty()) return;
  const std::scoped_lock lock(calls_.mutex_);
  --calls_.At(name_).reads;
  calls_.Drop(name_);
}

void CallsInFlight::Note(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  const auto found = names_.find(name);
  if (found != names_.end()) ++found->second.requests;
}

CallsInFlight::Canceled CallsInFlight::Cancel(const Name& name, MonoTime now) {
  const std::scoped_lock lock(mutex_);
  Canceled canceled;
  std::erase_if(answers_,
                [&](const Answer& answer) { return now - answer.since > limits::kCancelCrosses; });
  if (const auto found = names_.find(name.text); found != names_.end()) {
    canceled.is_read = found->second.reads > 0 && found->second.writes.empty();
    bool is_there = false;
    for (Write* const write : found->second.writes) {
      if (write->is_answered_ || write->name_.principal != name.principal) continue;
      write->client_.GiveUp();
      is_there = true;
    }
    if (is_there) return canceled;
  }
  std::erase_if(answers_, [&](const Answer& answer) {
    const bool is_it = answer.name.text == name.text && answer.name.principal == name.principal;
    if (is_it) canceled.unread.push_back(answer.attempt);
    return is_it;
  });
  return canceled;
}

CallsInFlight::Entry& CallsInFlight::At(const std::string& name) { return names_[name]; }

void CallsInFlight::Drop(const std::string& name) {
  const auto found = names_.find(name);
  if (found->second.writes.empty() && found->second.reads == 0) names_.erase(found);
}

}  // namespace recourse
