#include "policy/suggest/infer_identity.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "policy/suggest/infer_twins.h"

namespace recourse {
namespace {

// As long as the same intent counts as a repeat across traces.
constexpr std::int64_t kRepeatMs = 30 * 60 * 1000;
constexpr std::size_t kLookBack = 256;
// Fewer intents may have different values at a place by chance.
constexpr std::size_t kIntentsMin = 20;
constexpr std::size_t kRepeatsMin = 2;
constexpr std::size_t kOpaqueRepeatsMin = 3;
// So many pairs of intents would have equal values at some places, were those independent; that
// none has is no chance.
constexpr double kPairsMin = 5;
constexpr std::size_t kCombinedMost = 12;  // places of which two or three are tried together
constexpr std::string_view kBodyPrefix = "body#";

class IdentityInference {
 public:
  IdentityInference(const std::vector<Sighting>& seen, const SeenTool& tool)
      : seen_(seen), tool_(tool) {
    for (const std::size_t call : tool.calls) fields_.push_back(SeenFieldsOf(seen[call], tool));
    for (const SeenFields& fields : fields_) {
      for (const auto& [place, field] : fields) kinds_[place].insert(field.kind);
    }
  }

  SuggestedIdentity Infer() {
    FindRepeats();
    AddTwins();
    FindVolatile();
    std::erase_if(repeats_, [&](const Repeat& repeat) {
      return !std::ranges::all_of(repeat.differs,
                                  [&](const auto& place) { return volatile_.contains(place); });
    });
    Group();
    SuggestedIdentity made;
    made.calls = fields_.size();
    made.repeats = repeats_.size();
    made.intents = std::set<std::size_t>(group_.begin(), group_.end()).size();
    for (const std::size_t first : group_) made.intent_of.push_back(tool_.calls[first]);
    Decide(made);
    Doubt(made);
    return made;
  }

 private:
  const Sighting& Call(std::size_t number) const { return seen_[tool_.calls[number]]; }
  bool IsAlways(const std::string& place, ValueKind kind) const {
    const auto& kinds = kinds_.at(place);
    return kinds.size() == 1 && kinds.contains(kind);
  }
  bool MayDrop(const std::string& place) const {
    return IsAlways(place, ValueKind::kTime) || IsAlways(place, ValueKind::kText) ||
           IsAlways(place, ValueKind::kOpaque);
  }

  void FindRepeats() {
    // A call that was answered at last is not repeated any more, unless byte by byte.
    std::set<std::size_t> done;
    for (std::size_t again = 1; again < fields_.size(); ++again) {
      Repeat best{again, again, {}};
      const std::size_t from = again > kLookBack ? again - kLookBack : 0;
      for (std::size_t first = again; first-- > from;) {
        if (Call(again).wall_ms - Call(first).wall_ms > kRepeatMs) break;
        Repeat repeat{first, again, Differing(fields_[first], fields_[again])};
        if (!MayRepeat(repeat) || (!repeat.differs.empty() && done.contains(first))) continue;
        if (best.first == again || repeat.differs.size() < best.differs.size()) {
          best = std::move(repeat);
        }
      }
      if (best.first == again) continue;
      done.insert(best.first);
      repeats_.push_back(std::move(best));
    }
  }

  bool MayRepeat(const Repeat& repeat) const {
    const Sighting& first = Call(repeat.first);
    const Sighting& again = Call(repeat.again);
    if (first.caller != again.caller) return false;
    const bool has_keys = first.agent_key != 0 && again.agent_key != 0;
    if (has_keys && first.agent_key != again.agent_key) return false;
    if (has_keys) return true;
    const bool has_trace = first.trace != 0 && first.trace == again.trace;
    if (repeat.differs.empty()) return first.InvitesRepeat() || first.status >= 400 || has_trace;
    return first.InvitesRepeat() && repeat.differs.size() < fields_[repeat.again].size() &&
           std::ranges::all_of(repeat.differs, [&](const auto& place) { return MayDrop(place); });
  }

  // Those of one trace that differ in a time or a random value alone are taken for repeats, and
  // told; about the others somebody is asked.
  void AddTwins() {
    std::set<std::size_t> known;
    for (const Repeat& repeat : repeats_) known.insert(repeat.again);
    for (Twin& twin : FindTwins(seen_, tool_, fields_)) {
      if (known.contains(twin.calls.again)) continue;
      const bool is_plain =
          twin.is_of_trace && std::ranges::all_of(twin.calls.differs, [&](const auto& place) {
            return IsAlways(place, ValueKind::kTime) || IsAlways(place, ValueKind::kOpaque);
          });
      if (is_plain) repeats_.push_back(twin.calls);
      twins_.push_back(std::move(twin));
    }
  }

  // Places whose values are new with every attempt.
  void FindVolatile() {
    std::map<std::string, std::size_t> differs;
    for (const Repeat& repeat : repeats_) {
      for (const std::string& place : repeat.differs) ++differs[place];
    }
    for (const auto& [place, times] : differs) {
      const bool is_opaque = IsAlways(place, ValueKind::kOpaque);
      if (times < (is_opaque ? kOpaqueRepeatsMin : kRepeatsMin) || !MayDrop(place)) continue;
      if (!is_opaque || IsOfOneAttempt(place)) volatile_.insert(place);
    }
  }

  // No value of it was ever sent twice, sent anywhere else, or told before: it names nothing.
  bool IsOfOneAttempt(const std::string& place) const {
    std::map<std::uint64_t, std::size_t> own;  // by hash: the sighting
    std::set<std::size_t> again;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const auto at = fields_[i].find(place);
      if (at == fields_[i].end()) continue;
      const auto [first, is_new] = own.try_emplace(at->second.hash, tool_.calls[i]);
      if (is_new) continue;
      // The whole call again, byte by byte, may well have it.
      const auto number = std::ranges::lower_bound(tool_.calls, first->second);
      const auto earlier = static_cast<std::size_t>(number - tool_.calls.begin());
      if (!Differing(fields_[earlier], fields_[i]).empty()) return false;
      again.insert(tool_.calls[i]);
    }
    const auto is_foreign = [&](std::uint64_t hash, std::size_t call) {
      const auto at = own.find(hash);
      return at != own.end() && at->second != call && !again.contains(call);
    };
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const auto met = [&](const auto& value) { return is_foreign(value.hash, i); };
      if (std::ranges::any_of(seen_[i].path, met) || std::ranges::any_of(seen_[i].query, met) ||
          std::ranges::any_of(seen_[i].body, met)) {
        return false;
      }
      // A read tells afterwards what was sent.
      const auto was_told = [&](const SeenValue& value) {
        const auto at = own.find(value.hash);
        return at != own.end() && at->second > i;
      };
      if (std::ranges::any_of(seen_[i].answer, was_told)) return false;
    }
    return true;
  }

  void Group() {
    group_.resize(fields_.size());
    for (std::size_t i = 0; i < group_.size(); ++i) group_[i] = i;
    for (const Repeat& repeat : repeats_) group_[repeat.again] = group_[repeat.first];
  }

  // Its callers' calls of two intents that only differ where identity does not look; 0: none.
  std::size_t Merged(const std::vector<std::string>& identity) const {
    std::map<std::vector<std::uint64_t>, std::size_t> intents;
    std::size_t merged = 0;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      std::vector<std::uint64_t> values{Call(i).caller};
      for (const std::string& place : identity) {
        const auto at = fields_[i].find(place);
        values.push_back(at == fields_[i].end() ? 0 : at->second.hash);
      }
      const auto [at, is_new] = intents.try_emplace(std::move(values), group_[i]);
      if (!is_new && at->second != group_[i]) ++merged;
    }
    return merged;
  }

  bool IsAnchor(const std::string& place) const {
    const auto& kinds = kinds_.at(place);
    if (kinds.contains(ValueKind::kFlag) || kinds.contains(ValueKind::kComposite) ||
        kinds.contains(ValueKind::kText) || kinds.contains(ValueKind::kTime)) {
      return false;
    }
    const bool is_everywhere = std::ranges::all_of(
        fields_, [&](const SeenFields& fields) { return fields.contains(place); });
    return is_everywhere && Merged({place}) == 0;
  }

  // How many pairs of intents would agree at all those places by chance.
  double PairsByChance(const std::vector<std::string>& places) const {
    std::vector<std::size_t> firsts;
    for (std::size_t i = 0; i < group_.size(); ++i) {
      if (group_[i] == i) firsts.push_back(i);
    }
    const auto share = [&](const auto& value_of) {
      std::map<std::uint64_t, double> counts;
      for (const std::size_t first : firsts) ++counts[value_of(first)];
      double sum = 0;
      for (const auto& [value, count] : counts) sum += count * count;
      return sum / static_cast<double>(firsts.size() * firsts.size());
    };
    double pairs = static_cast<double>(firsts.size() * (firsts.size() - 1)) / 2 *
                   share([&](std::size_t first) { return Call(first).caller; });
    for (const std::string& place : places) {
      pairs *= share([&](std::size_t first) {
        const auto at = fields_[first].find(place);
        return at == fields_[first].end() ? 0 : at->second.hash;
      });
    }
    return pairs;
  }

  bool TellsApart(const std::vector<std::string>& places) const {
    return PairsByChance(places) >= kPairsMin && Merged(places) == 0;
  }

  // Two or three places that together tell every intent from every other, and not by chance; empty:
  // there are none.
  std::vector<std::string> Combined(std::vector<std::string> places) const {
    places.resize(std::min(places.size(), kCombinedMost));
    for (std::size_t a = 0; a < places.size(); ++a) {
      for (std::size_t b = a + 1; b < places.size(); ++b) {
        if (TellsApart({places[a], places[b]})) return {places[a], places[b]};
      }
    }
    for (std::size_t a = 0; a < places.size(); ++a) {
      for (std::size_t b = a + 1; b < places.size(); ++b) {
        for (std::size_t c = b + 1; c < places.size(); ++c) {
          std::vector<std::string> three{places[a], places[b], places[c]};
          if (TellsApart(three)) return three;
        }
      }
    }
    return {};
  }

  void Decide(SuggestedIdentity& made) const {
    const auto undecided = [&](std::string why) { made.why = "not decided: " + std::move(why); };
    std::vector<std::string> identity;
    for (const auto& [place, kinds] : kinds_) {
      if (!volatile_.contains(place)) identity.push_back(place);
      if (place == "(others)") return undecided("more members than are looked at");
    }
    for (const std::size_t call : tool_.calls) {
      if (seen_[call].form == SeenBody::kOther) {
        return undecided("bodies that are neither JSON nor a form");
      }
    }
    if (std::ranges::all_of(kinds_, [](const auto& of) { return of.first.starts_with("path."); })) {
      made.is_decided = true;
      made.is_all = made.calls >= kRepeatsMin;  // one more may have had a body
      made.why = tool_.IsMcp() ? "it has no arguments" : "its path is all that it says";
      return;
    }
    if (made.repeats == 0) return undecided("no repeat was seen");
    for (const std::string& place : identity) {
      if (IsAnchor(place)) made.anchors.push_back(place);
    }
    const bool has_proof = made.intents >= kIntentsMin && made.repeats >= kRepeatsMin;
    if (!has_proof || made.anchors.empty()) made.anchors.clear();
    if (volatile_.empty() && made.anchors.empty()) {
      made.is_decided = true;
      made.is_all = made.repeats >= kRepeatsMin;
      made.why = "every repeat had equal arguments";
      return;
    }
    if (!has_proof) {
      return undecided("repeats differ in " + ListOf(volatile_) + ", but fewer than " +
                       std::to_string(kIntentsMin) + " intents were seen");
    }
    const std::size_t merged = Merged(identity);
    const std::vector<std::string> together =
        made.anchors.empty() && merged == 0 ? Combined(identity) : std::vector<std::string>();
    if (merged > 0 || (made.anchors.empty() && together.empty())) {
      made.anchors.clear();
      return undecided(merged > 0
                           ? std::to_string(merged) + " calls differ from another intent in " +
                                 (volatile_.empty() ? "nothing" : ListOf(volatile_)) + " only"
                           : "no value is another one in every intent, nor are two or three "
                             "together, unless by chance");
    }
    for (const std::string& place : volatile_) {
      if (IsAlways(place, ValueKind::kText)) {
        made.reworded.push_back(place);
      } else if (place.starts_with(kBodyPrefix)) {
        made.ignore.push_back(place.substr(kBodyPrefix.size()));
      } else {
        made.ignore.clear();
        made.reworded.clear();
        return undecided("repeats differ in " + place + ", which no setting leaves out");
      }
    }
    made.is_decided = true;
    made.identity = std::move(identity);
    const std::string telling =
        together.empty() ? ListOf({made.anchors.begin(), made.anchors.end()}) + " differs"
                         : ListOf({together.begin(), together.end()}) + " together differ";
    made.why = "equal in " + std::to_string(made.repeats) + " repeats; " + telling +
               " between all " + std::to_string(made.intents) + " intents";
  }

  // What somebody has to look at before it is believed.
  void Doubt(SuggestedIdentity& made) const {
    // By the method a second one changes nothing.
    const bool may_be_meant = tool_.method != "DELETE" && tool_.method != "PUT";
    for (const Repeat& repeat : repeats_) {
      const Sighting& first = Call(repeat.first);
      const bool has_key = first.agent_key != 0 && first.agent_key == Call(repeat.again).agent_key;
      made.after_answer += may_be_meant && !has_key && first.Succeeded() && first.is_delivered;
    }
    if (made.after_answer > 0) {
      made.doubts.push_back(std::to_string(made.after_answer) + " of " +
                            std::to_string(made.repeats) +
                            (made.repeats == 1 ? " repeat" : " repeats") +
                            " came after a received answer: these may be meant twice");
    }
    std::set<std::string> places;
    for (const Twin& twin : twins_)
      places.insert(twin.calls.differs.begin(), twin.calls.differs.end());
    if (!twins_.empty()) {
      const bool is_of_trace = std::ranges::all_of(twins_, &Twin::is_of_trace);
      made.doubts.push_back(
          std::to_string(twins_.size()) + (twins_.size() == 1 ? " call is" : " calls are") +
          " equal to an earlier one of the same " + (is_of_trace ? "trace" : "caller") +
          " but for " + ListOf(places) + ": is it a repeat? then leave them out");
    }
    for (const std::string& place : made.identity) {
      if (places.contains(place)) made.doubted.push_back(place);
      if (places.contains(place) || !IsAlways(place, ValueKind::kTime)) continue;
      made.doubted.push_back(place);
      made.doubts.push_back(place +
                            " looks like the time of the call: if another attempt may have "
                            "another, move it to ignore");
    }
    made.is_decided = made.is_decided && made.doubts.empty();
  }

  static std::string ListOf(const std::set<std::string>& places) {
    std::string out;
    for (const std::string& place : places) out += (out.empty() ? "" : ", ") + place;
    return out;
  }

  const std::vector<Sighting>& seen_;
  const SeenTool& tool_;
  std::vector<SeenFields> fields_;                    // by call
  std::map<std::string, std::set<ValueKind>> kinds_;  // by place
  std::vector<Repeat> repeats_;
  std::vector<Twin> twins_;
  std::set<std::string> volatile_;
  std::vector<std::size_t> group_;  // by call: the first call of its intent
};

}  // namespace

SuggestedIdentity InferIdentity(const std::vector<Sighting>& seen, const SeenTool& tool) {
  return IdentityInference(seen, tool).Infer();
}

}  // namespace recourse
