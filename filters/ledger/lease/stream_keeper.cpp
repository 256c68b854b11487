#include "filters/ledger/lease/stream_keeper.h"

#include <algorithm>

#include "proxy/base/lease_limits.h"

namespace recourse {
namespace {

// How soon it is seen that the others know.
constexpr Millis kSaidAwaited{10};

}  // namespace

MonoTime StreamKeeper::Step() {
  const MonoTime now = clock_.Now();
  const bool reads = !watch_.watched().empty();
  if (went_back_) return After(TellWentBack(), now);
  const bool may_take = has_found() && table_.HasSaidTaking();
  if (!silent_.empty() && may_take) return After(DeclareNext(), now);
  // However long it takes to take somebody over, silence goes on to count.
  if (now >= list_due_) return After(List(), now);
  if (reads && now >= read_due_) return After(ReadBeats(), now);
  if (!taking_.empty()) return After(TakeOverNext(), now);
  if (!abandoned_.empty() && may_take) return After(AdoptNext(), now);
  const MonoTime due = reads ? std::min(list_due_, read_due_) : list_due_;
  return has_found() ? std::min(due, now + kSaidAwaited) : due;
}

// What failed is done again, after a pause that grows.
MonoTime StreamKeeper::After(bool succeeded, MonoTime next) {
  if (succeeded) {
    failures_ = 0;
    return next;
  }
  watch_.Failed();
  return clock_.Now() + ReconnectPause(++failures_, Jitter(random_));
}

bool StreamKeeper::TellWentBack() {
  if (!table_.TellWentBack(*went_back_)) return false;
  went_back_.reset();
  return true;
}

bool StreamKeeper::TakeOverNext() {
  const auto is_done = table_.TakeOverSome(taking_.front());
  if (!is_done) return false;
  if (*is_done) {
    ++takeovers_;
    taking_.pop_front();
  }
  return true;
}

// A declaration whose answer was lost may have been made: then the stream is found abandoned, or as
// silent as before.
bool StreamKeeper::DeclareNext() {
  const Watch::Silent silent = silent_.front();
  silent_.pop_front();
  const auto is_ours = table_.Declare(silent);
  if (!is_ours) is_in_doubt_ = true;
  if (is_ours && *is_ours) taking_.push_back(silent.stream);
  return is_ours.has_value();
}

bool StreamKeeper::AdoptNext() {
  const StreamTable::Abandoned abandoned = abandoned_.front();
  abandoned_.pop_front();
  if (std::ranges::find(taking_, abandoned.stream) != taking_.end()) return true;
  const auto is_ours = table_.Adopt(abandoned);
  if (!is_ours) is_in_doubt_ = true;
  if (is_ours && *is_ours) taking_.push_back(abandoned.stream);
  return is_ours.has_value();
}

bool StreamKeeper::List() {
  const MonoTime asked = clock_.Now();
  const auto listed = table_.List();
  if (!listed) return false;
  is_in_doubt_ = false;
  const MonoTime answered = clock_.Now();
  const auto silent = watch_.List(asked, answered, listed->open);
  silent_.assign(silent.begin(), silent.end());
  if (const auto seen = watch_.TakeWentBack()) went_back_ = seen;
  abandoned_.assign(listed->abandoned.begin(), listed->abandoned.end());
  list_due_ = answered;
  if (silent.size() < limits::kDeclaredAtOnceMax) {
    list_due_ += ListEvery(listed->processes, !listed->open.empty());
  }
  return true;
}

bool StreamKeeper::ReadBeats() {
  const MonoTime asked = clock_.Now();
  const auto beats = table_.Beats(watch_.watched());
  if (!beats) return false;
  const MonoTime answered = clock_.Now();
  const auto silent = watch_.Read(asked, answered, *beats);
  silent_.assign(silent.begin(), silent.end());
  if (const auto seen = watch_.TakeWentBack()) went_back_ = seen;
  read_due_ = answered + limits::kWatchEvery;
  return true;
}

}  // namespace recourse
