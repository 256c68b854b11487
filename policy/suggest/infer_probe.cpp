#include "policy/suggest/infer_probe.h"

#include <set>
#include <tuple>

#include "policy/suggest/seen_values.h"
#include "policy/suggest/value_sources.h"

namespace recourse {
namespace {

constexpr std::size_t kProbesMin = 3;

class ProbeInference {
 public:
  ProbeInference(const std::vector<Sighting>& seen, const std::vector<SeenTool>& tools,
                 const GivenNames& given, std::size_t number, const MadeThings& things,
                 const std::string& ref_place)
      : seen_(seen),
        tools_(tools),
        given_(given),
        number_(number),
        tool_(things.tool),
        identity_(things.identity),
        ref_place_(ref_place) {}

  std::optional<SuggestedProbe> Infer() {
    for (const std::string& anchor : identity_.anchors) {
      if (!anchor.starts_with("body#/")) continue;
      for (const std::size_t call : tool_.calls) {
        const SeenValue* value = ValueAt(seen_[call].body, anchor);
        if (value != nullptr) asked_[{anchor, value->hash}].push_back(call);
      }
    }
    std::map<Question, Replies> questions;
    for (std::size_t t = 0; t < tools_.size(); ++t) {
      const SeenTool& read = tools_[t];
      const bool asks = read.IsMcp() ? read.IsRead() : read.method == "GET";
      if (!asks || read.backend != tool_.backend) continue;
      for (const std::size_t call : read.calls) {
        if (seen_[call].Succeeded()) Ask(t, call, questions);
      }
    }
    for (auto& [question, replies] : questions) TakeProbe(question, replies);
    return std::move(probe_);
  }

 private:
  // The value of a call that tells its intent, and a read that is asked by it.
  struct Question {
    std::size_t tool = 0;
    std::string anchor, query;  // query: the parameter or argument; empty: in the path
    std::size_t segment = 0;
    bool operator<(const Question& other) const {
      return std::tie(tool, anchor, query, segment) <
             std::tie(other.tool, other.anchor, other.query, other.segment);
    }
  };
  struct Replies {
    std::vector<LaterCall> pairs;
    std::size_t missed = 0;
    std::set<std::string> places;  // that had the name of what was made, in all of them
  };

  void Ask(std::size_t tool, std::size_t call, std::map<Question, Replies>& questions) const {
    const Sighting& read = seen_[call];
    const SeenTool& of = tools_[tool];
    for (const std::string& anchor : identity_.anchors) {
      const auto note = [&](const Question& question, std::uint64_t value) {
        const auto at = asked_.find({anchor, value});
        if (at != asked_.end()) Note(question, at->second, call, questions);
      };
      if (of.IsMcp()) {
        const bool is_one = read.body.size() == 1 && !MemberOf(read.body[0].place).empty();
        if (is_one) {
          note({tool, anchor, std::string(MemberOf(read.body[0].place)), 0}, read.body[0].hash);
        }
        continue;
      }
      if (read.query.size() == 1) {
        note({tool, anchor, read.query[0].place.substr(6), 0}, read.query[0].hash);
      }
      if (!read.query.empty()) continue;
      for (std::size_t s = 0; s < of.segments.size(); ++s) {
        if (NamesOne(of.segments[s])) note({tool, anchor, {}, s}, read.path[s].hash);
      }
    }
  }

  // An answer that came after the effect has to name it.
  void Note(const Question& question, const std::vector<std::size_t>& calls, std::size_t read,
            std::map<Question, Replies>& questions) const {
    std::set<std::uint64_t> made;
    std::size_t first = read;
    for (const std::size_t call : calls) {
      const SeenValue* value = ValueAt(seen_[call].answer, ref_place_);
      if (call > read || value == nullptr) continue;
      first = std::min(first, call);
      made.insert(value->hash);
    }
    // Repeats have made it more than once, so it stands where it would not stand alone.
    if (made.empty() || calls.size() > 1) return;
    Replies& replies = questions[question];
    std::set<std::string> places;
    for (const SeenValue& value : seen_[read].answer) {
      if (made.contains(value.hash)) places.insert(value.place);
    }
    if (places.empty()) {
      ++replies.missed;
      return;
    }
    if (replies.pairs.empty()) replies.places = places;
    std::erase_if(replies.places, [&](const auto& place) { return !places.contains(place); });
    replies.pairs.push_back({first, read});
  }

  // Numbers of two collections are equal by chance. What was made is read by its own name, not by
  // another value that is equal to it; and a number is asked for by what is called like it.
  bool MayBeChance(const Question& question) const {
    if (question.query.empty()) {
      return !tools_[question.tool].IsMcp() &&
             IsNear(given_.SegmentSlot(question.tool, question.segment).nearness[number_]) &&
             LastToken(question.anchor) != LastToken(ref_place_);
    }
    const bool is_number = std::ranges::any_of(tool_.calls, [&](std::size_t call) {
      const SeenValue* const value = ValueAt(seen_[call].body, question.anchor);
      return value != nullptr && value->kind == ValueKind::kNumber;
    });
    return is_number && !AreCalledAlike(question.query, question.anchor);
  }

  void TakeProbe(const Question& question, const Replies& replies) {
    std::set<std::size_t> intents;
    for (const LaterCall& pair : replies.pairs) intents.insert(pair.made);
    if (intents.size() < kProbesMin || replies.places.empty()) return;
    if (replies.missed > 0 && IsMany(replies.missed, replies.pairs.size())) return;
    if (probe_ && probe_->found >= intents.size()) return;
    if (MayBeChance(question)) return;
    const SeenTool& read = tools_[question.tool];
    auto path = ValueSources(seen_, tool_, ref_place_).PathFor(read, replies.pairs);
    // A probe sees the call only, as there is no answer.
    if (!path || path->find("{external_ref}") != std::string::npos) return;
    SuggestedProbe probe;
    probe.happened = *std::ranges::min_element(replies.places, ComesFirst);
    probe.found = intents.size();
    probe.asks_for = {question.anchor};
    const std::string value = "{" + question.anchor + "}";
    if (read.IsMcp()) {
      probe.request = *path;
      probe.arguments.emplace_back(question.query, value);
    } else {
      if (!question.query.empty()) *path += "?" + question.query + "=" + value;
      probe.request = "GET " + *path;
    }
    probe_ = std::move(probe);
  }

  const std::vector<Sighting>& seen_;
  const std::vector<SeenTool>& tools_;
  const GivenNames& given_;
  const std::size_t number_;
  const SeenTool& tool_;
  const SuggestedIdentity& identity_;
  const std::string& ref_place_;
  std::map<std::pair<std::string, std::uint64_t>, std::vector<std::size_t>> asked_;
  std::optional<SuggestedProbe> probe_;
};

}  // namespace

std::optional<SuggestedProbe> InferProbe(const std::vector<Sighting>& seen,
                                         const std::vector<SeenTool>& tools,
                                         const GivenNames& given, std::size_t number,
                                         const MadeThings& things, const std::string& ref_place) {
  return ProbeInference(seen, tools, given, number, things, ref_place).Infer();
}

}  // namespace recourse
