#include "proxy/traffic/traffic_trial.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "filters/call/call_values.h"
#include "filters/status_proofs.h"
#include "policy/uri/opposites.h"

namespace recourse {
namespace {

using Kind = SeenWrite::Kind;

const Tool& RulesOf(const SeenWrite& write) {
  return write.tool == nullptr ? UnlistedTool() : *write.tool;
}

bool HadNoEffect(const Sighting& call, const Tool& tool) {
  return ProofOf(call.status) != StatusProof::kNone || tool.not_executed.Contains(call.status);
}

// Values by place, without times, which every answer tells anew.
std::map<std::string, std::uint64_t> StableValues(const std::vector<SeenValue>& values) {
  std::map<std::string, std::uint64_t> stable;
  for (const SeenValue& value : values) {
    if (value.kind != ValueKind::kTime) stable[value.place] = value.hash;
  }
  return stable;
}

std::vector<std::string> DifferingPlaces(const std::map<std::string, std::uint64_t>& one,
                                         const std::map<std::string, std::uint64_t>& other) {
  std::set<std::string> places;
  for (const auto& [from, to] : {std::pair(&one, &other), std::pair(&other, &one)}) {
    for (const auto& [place, hash] : *from) {
      const auto at = to->find(place);
      if (at == to->end() || at->second != hash) places.insert(place);
    }
  }
  return {places.begin(), places.end()};
}

std::map<std::string, std::uint64_t> ArgumentValues(const Sighting& call) {
  std::map<std::string, std::uint64_t> all;
  for (const auto* values : {&call.query, &call.body}) {
    for (const SeenValue& value : *values) all[value.place] = value.hash;
  }
  for (std::size_t i = 0; i < call.path.size(); ++i) {
    all["segment " + std::to_string(i + 1) + " of the path"] = call.path[i].hash;
  }
  return all;
}

bool IsOpposite(const Sighting& one, const Sighting& other) {
  if (one.path.size() != other.path.size() || one.path.empty()) return false;
  const auto& verbs = OppositesOf(one.path.back().word);
  if (std::ranges::find(verbs, other.path.back().word) == verbs.end()) return false;
  return std::equal(one.path.begin(), one.path.end() - 1, other.path.begin(),
                    [](const auto& a, const auto& b) { return a.hash == b.hash; });
}

// Whether `other` is the DELETE of what the POST `made` made, by a name that its answer told.
bool IsDeleteOf(const Sighting& other, const Sighting& made) {
  if (other.method != "DELETE" || other.path.size() != made.path.size() + 1) return false;
  const bool is_below = std::equal(made.path.begin(), made.path.end(), other.path.begin(),
                                   [](const auto& a, const auto& b) { return a.hash == b.hash; });
  return is_below && std::ranges::any_of(made.answer, [&](const SeenValue& value) {
           return value.hash == other.path.back().hash;
         });
}

class Trial {
 public:
  Trial(const Policy& policy, const std::vector<Sighting>& seen, const SeenHash& hash)
      : seen_(seen), reader_(policy, hash) {}

  TrafficTrial Run() {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      if (!seen_[i].hints.empty()) continue;  // a list of tools is no call
      ++made_.calls;
      Judge(i, reader_.Read(seen_[i]));
    }
    return std::move(made_);
  }

 private:
  // What is remembered under one key.
  struct Operation {
    std::size_t first = 0;
    std::int64_t last_ms = 0;
    std::string arguments;
    // The first call of it whose client had the answer that it was done.
    std::optional<std::size_t> answered;
  };
  // Writes that went to their backend.
  struct Sent {
    std::size_t call = 0;
    std::string tool, place, intent, arguments;
  };

  void Judge(std::size_t number, const SeenWrite& write) {
    if (write.kind == Kind::kRead) {
      ++made_.reads;
      return;
    }
    ObservedCounts& counts = made_.tools[write.name];
    ++counts.seen;
    switch (write.kind) {
      case Kind::kRefused:
        return Refuse(counts, write, write.why);
      case Kind::kUntold:
        ++counts.untold;
        ++made_.untold[write.name + ": " + write.why];
        return;
      case Kind::kLogged:
        ++counts.sent;
        return;
      default:
        break;
    }
    std::string key = write.intent;
    key += "\n" + write.scope;
    Operation* const earlier = Find(number, write, key);
    if (earlier == nullptr) {
      ++(write.asks ? counts.asks : counts.sent);
      Send(number, write, std::move(key));
      return;
    }
    JudgeRepeat(number, write, *earlier, counts);
    earlier->last_ms = seen_[number].wall_ms;
    if (!earlier->answered && WasAnswered(number)) earlier->answered = number;
  }

  bool WasAnswered(std::size_t number) const {
    return seen_[number].Succeeded() && seen_[number].is_delivered;
  }

  void Refuse(ObservedCounts& counts, const SeenWrite& write, const std::string& why) {
    ++counts.refused;
    ++made_.refused[write.name + ": " + why];
  }

  void Send(std::size_t number, const SeenWrite& write, std::string key) {
    Operation operation{number, seen_[number].wall_ms, write.arguments, {}};
    if (WasAnswered(number)) operation.answered = number;
    operations_[key] = std::move(operation);
    latest_[write.intent] = std::move(key);
    sent_.push_back({number, write.name, write.place, write.intent, write.arguments});
  }

  // The operation that it repeats; null: it is one of its own.
  Operation* Find(std::size_t number, const SeenWrite& write, const std::string& key) {
    const auto at = operations_.find(key);
    if (at != operations_.end()) {
      return IsNearEnough(number, write, at->second) && Stands(write, at->second) ? &at->second
                                                                                  : nullptr;
    }
    const auto elsewhere = latest_.find(write.intent);
    if (RulesOf(write).scope.kind != ScopeRule::Kind::kTrace || write.is_named ||
        elsewhere == latest_.end()) {
      return nullptr;
    }
    Operation& earlier = operations_.at(elsewhere->second);
    return IsSameElsewhere(number, write, earlier) && Stands(write, earlier) ? &earlier : nullptr;
  }

  bool IsWithin(std::size_t number, const Operation& earlier, Millis window) const {
    return seen_[number].wall_ms - earlier.last_ms <= window.count();
  }

  // Under one key: whatever shares a scope is one; without, what its window says, or a retry.
  bool IsNearEnough(std::size_t number, const SeenWrite& write, const Operation& earlier) const {
    const Tool& tool = RulesOf(write);
    if (write.is_named || !write.scope.empty()) return true;
    if (tool.scope.kind != ScopeRule::Kind::kTrace || write.has_identity) {
      return IsWithin(number, earlier, tool.dedupe_window);
    }
    return seen_[earlier.first].InvitesRepeat() && IsWithin(number, earlier, tool.across_window);
  }

  bool IsSameElsewhere(std::size_t number, const SeenWrite& write, const Operation& earlier) const {
    const Tool& tool = RulesOf(write);
    if (tool.across_traces == AcrossTraces::kNever) return false;
    if (tool.across_traces == AcrossTraces::kAlways) return true;
    return seen_[earlier.first].InvitesRepeat() && IsWithin(number, earlier, tool.across_window);
  }

  // False: what came after it ended its answer, so that the same call is made anew.
  bool Stands(const SeenWrite& write, const Operation& earlier) const {
    if (write.is_named) return true;
    const Sighting& first = seen_[earlier.first];
    if (HadNoEffect(first, RulesOf(write))) return false;
    for (auto later = sent_.rbegin(); later != sent_.rend() && later->call > earlier.first;
         ++later) {
      if (later->intent == write.intent || ProofOf(seen_[later->call].status) != StatusProof::kNone)
        continue;
      if (Ends(write, first, *later)) return false;
    }
    return true;
  }

  bool Ends(const SeenWrite& write, const Sighting& first, const Sent& later) const {
    const Sighting& call = seen_[later.call];
    const Tool& tool = RulesOf(write);
    const bool is_there = later.place == write.place && !first.IsMcpCall();
    const auto is_listed = [&](const EndingTool& one) { return one.name == later.tool; };
    if (std::ranges::any_of(tool.superseded_by, is_listed)) return true;
    if (is_there && tool.superseded_by_others) return true;
    if (first.method == "PUT" || first.method == "DELETE") return is_there;
    if (first.method == "PATCH") {
      return is_there && (call.method != "PATCH" || later.arguments != write.arguments);
    }
    return IsOpposite(first, call) || IsDeleteOf(call, first);
  }

  void JudgeRepeat(std::size_t number, const SeenWrite& write, const Operation& earlier,
                   ObservedCounts& counts) {
    const Sighting& first = seen_[earlier.first];
    const bool has_other = write.arguments != earlier.arguments;
    const OnMismatch on_mismatch = RulesOf(write).on_mismatch;
    const bool is_refused = has_other && on_mismatch == OnMismatch::kReject;
    if (is_refused) {
      Refuse(counts, write, "same key, other arguments (422)");
    } else if (has_other && on_mismatch == OnMismatch::kAsk) {
      ++counts.asks;
    } else if (first.wall_ms + first.took_ms > seen_[number].wall_ms) {
      ++counts.joined;
    } else {
      ++(first.Succeeded() ? counts.replayed : counts.in_doubt);
    }
    auto merge = MergeOf(number, write, earlier);
    if (!merge) {
      CaughtRepeats& caught = made_.caught[write.name];
      if (caught.all++ == 0) caught.example = {write.name, earlier.first, number};
      caught.after_answer += earlier.answered ? 1 : 0;
      return;
    }
    merge->is_refused = is_refused;
    if (made_.merged++ < TrafficTrial::kMergesShown) made_.merges.push_back(std::move(*merge));
  }

  // Whoever had an answer and asked for something else, or elsewhere, and got something else,
  // wanted two things.
  std::optional<TrialMerge> MergeOf(std::size_t number, const SeenWrite& write,
                                    const Operation& earlier) const {
    if (!earlier.answered || write.is_named || !seen_[number].Succeeded()) return std::nullopt;
    const Sighting& first = seen_[*earlier.answered];
    const Sighting& again = seen_[number];
    TrialMerge merge;
    merge.tool = write.name;
    merge.first = *earlier.answered;
    merge.again = number;
    merge.arguments = DifferingPlaces(ArgumentValues(first), ArgumentValues(again));
    const bool is_in_one_trace = first.trace != 0 && first.trace == again.trace;
    if (merge.arguments.empty() && is_in_one_trace) return std::nullopt;
    merge.answers = DifferingPlaces(StableValues(first.answer), StableValues(again.answer));
    // Answers without values are all alike.
    const bool tell_nothing = first.answer.empty() && again.answer.empty();
    const bool is_two = !merge.answers.empty() || (tell_nothing && !merge.arguments.empty());
    return is_two ? std::optional(std::move(merge)) : std::nullopt;
  }

  const std::vector<Sighting>& seen_;
  const SeenWriteReader reader_;
  TrafficTrial made_;
  std::unordered_map<std::string, Operation> operations_;  // by key
  std::unordered_map<std::string, std::string> latest_;    // by intent: the key
  std::vector<Sent> sent_;
};

}  // namespace

TrafficTrial TryTraffic(const Policy& policy, const std::vector<Sighting>& seen,
                        const SeenHash& hash) {
  return Trial(policy, seen, hash).Run();
}

}  // namespace recourse
