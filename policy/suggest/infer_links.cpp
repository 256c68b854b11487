#include "policy/suggest/infer_links.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "policy/import/import_text.h"
#include "policy/suggest/infer_probe.h"
#include "policy/suggest/seen_values.h"
#include "policy/suggest/taking_back.h"
#include "policy/suggest/value_sources.h"

namespace recourse {
namespace {

constexpr std::size_t kBackMin = 3;
constexpr std::size_t kNamedBackMin = 2;  // where the member is called like a name
constexpr std::size_t kUndosMin = 2;

}  // namespace

// What is looked up for one tool.
class ToolLinks {
 public:
  ToolLinks(const TrafficLinks& all, std::size_t number, const SuggestedIdentity& identity)
      : all_(all),
        seen_(all.seen_),
        number_(number),
        tool_(all.tools_[number]),
        identity_(identity),
        sources_(seen_, tool_, ref_.place) {}

  SuggestedLinks Infer() {
    if (tool_.method != "POST" && !tool_.IsMcp()) return {};
    InferRef();
    if (ref_.place.empty()) return std::move(links_);
    InferUndo();
    if (links_.ref.place.empty()) return std::move(links_);
    const MadeThings things{tool_, identity_, ref_.made,
                            [this](std::uint64_t name, std::size_t after, std::size_t before) {
                              return WasTouched(name, after, before);
                            }};
    links_.probe = InferProbe(seen_, all_.tools_, all_.given_, number_, things, ref_.place);
    // A list is searched for all of the identity, which one value alone seldom is.
    if (!links_.probe || !links_.probe->IsSure(identity_)) {
      if (auto search = InferSearch(seen_, all_.tools_, things)) links_.probe = std::move(search);
    }
    return std::move(links_);
  }

 private:
  using Use = TrafficLinks::Use;
  using Pair = LaterCall;
  struct Candidate {
    std::string place, slot;
    std::size_t came_back = 0, answers = 0;
    std::map<std::uint64_t, std::size_t> made;  // by value: the first call that told it
    Nearness nearness = Nearness::kOther;       // of the slot
    bool is_echo = false;                       // the request has its values, too
    bool may_be_chance = false;                 // that a value of it came back there
    // The better evidence is the higher number, whatever the counts.
    int Rank() const { return !IsNear(nearness) ? 0 : is_echo ? 1 : 2; }
  };

  const std::vector<Use>* UsesOf(const std::string& slot, std::uint64_t value) const {
    const auto at = all_.uses_.find(value);
    if (at == all_.uses_.end()) return nullptr;
    const auto uses = at->second.find(slot);
    return uses == at->second.end() ? nullptr : &uses->second;
  }

  bool WasTouched(std::uint64_t name, std::size_t after, std::size_t before) const {
    const auto at = all_.uses_.find(name);
    if (at == all_.uses_.end()) return false;
    return std::ranges::any_of(at->second, [&](const auto& slot) {
      return std::ranges::any_of(slot.second, [&](const Use& use) {
        return use.call > after && use.call < before && !all_.tools_[use.tool].IsRead();
      });
    });
  }

  // False: two intents have one value there, so it names nothing that either made.
  bool Gather(Candidate& candidate) const {
    std::map<std::uint64_t, std::size_t> intents;
    std::map<std::string, std::size_t> said;  // by the place of the request
    std::size_t echoes = 0;
    bool is_number = false;
    for (std::size_t i = 0; i < tool_.calls.size(); ++i) {
      const Sighting& call = seen_[tool_.calls[i]];
      const SeenValue* value = call.Succeeded() ? ValueAt(call.answer, candidate.place) : nullptr;
      if (value == nullptr) continue;
      if (!IsName(*value)) return false;
      const auto [at, is_new] = intents.try_emplace(value->hash, identity_.intent_of[i]);
      if (!is_new && at->second != identity_.intent_of[i]) return false;
      if (is_new) candidate.made[value->hash] = tool_.calls[i];
      is_number = is_number || value->kind == ValueKind::kNumber;
      const auto places = SaidIn(call, value->hash);
      for (const std::string& place : places) ++said[place];
      echoes += !places.empty();
      ++candidate.answers;
    }
    // Numbers are equal by chance, too: only those that nearly always stand at one place are one.
    candidate.is_echo =
        is_number
            ? std::ranges::any_of(
                  said, [&](const auto& of) { return of.second * 5 >= candidate.answers * 4; })
            : IsMany(echoes, candidate.answers);
    return candidate.answers > 0;
  }

  static std::set<std::string> SaidIn(const Sighting& call, std::uint64_t value) {
    std::set<std::string> places;
    for (const SeenValue& sent : call.body) {
      if (sent.hash == value) places.insert(sent.place);
    }
    for (std::size_t s = 0; s < call.path.size(); ++s) {
      if (call.path[s].hash == value) places.insert(std::to_string(s));
    }
    return places;
  }

  // Finds the slot in which most of its values come back, rather one of its own collection. Those
  // that were in another's slot before they were made are not its own.
  void FindSlot(Candidate& candidate) const {
    struct Counts {
      std::size_t back = 0, before = 0;
      bool may_be_chance = false;
    };
    std::map<std::string, Counts> by_slot;
    for (const auto& [value, made] : candidate.made) {
      const auto at = all_.uses_.find(value);
      if (at == all_.uses_.end()) continue;
      for (const auto& [slot, uses] : at->second) {
        if (!slot.starts_with(tool_.backend + " ")) continue;
        Counts& counts = by_slot[slot];
        const bool is_back = std::ranges::any_of(uses, [&](const Use& use) {
          return use.call > made && IsOwn(value, use.call, all_.slots_.at(slot));
        });
        counts.back += is_back;
        counts.before += uses.front().call < made;
        const SeenValue& told = *ValueAt(seen_[made].answer, candidate.place);
        counts.may_be_chance = counts.may_be_chance || (is_back && MayBeChance(told));
      }
    }
    for (const auto& [slot, counts] : by_slot) {
      const Nearness nearness = all_.slots_.at(slot).nearness[number_];
      const bool is_own =
          IsNear(nearness) ||
          (!candidate.is_echo && (counts.before == 0 || !IsMany(counts.before, counts.back)));
      if (!is_own || counts.back == 0) continue;
      if (!candidate.slot.empty() &&
          std::pair(IsNear(nearness), counts.back) <=
              std::pair(IsNear(candidate.nearness), candidate.came_back)) {
        continue;
      }
      candidate.came_back = counts.back;
      candidate.slot = slot;
      candidate.nearness = nearness;
      candidate.may_be_chance = !IsNear(nearness) && counts.may_be_chance;
    }
  }

  bool IsOwn(std::uint64_t value, std::size_t use, const NameSlot& slot) const {
    return all_.given_.GiverOf(value, use, slot) == number_;
  }

  // Where the collection does not tell: another create may have given it as well.
  bool MayBeChance(const SeenValue& told) const {
    return told.kind == ValueKind::kNumber || !all_.given_.IsOfOneTool(told.hash);
  }

  void InferRef() {
    std::set<std::string> places;
    for (const std::size_t call : tool_.calls) {
      for (const SeenValue& value : seen_[call].answer) places.insert(value.place);
    }
    std::vector<Candidate> best;
    for (const std::string& place : places) {
      Candidate candidate;
      candidate.place = place;
      if (!Gather(candidate)) continue;
      FindSlot(candidate);
      const bool is_named = LooksLikeIdName(LastToken(place));
      if (candidate.came_back < (is_named ? kNamedBackMin : kBackMin)) continue;
      const auto weight = [](const Candidate& of) { return std::pair(of.Rank(), of.came_back); };
      if (!best.empty() && weight(candidate) < weight(best.front())) continue;
      if (!best.empty() && weight(candidate) > weight(best.front())) best.clear();
      best.push_back(std::move(candidate));
    }
    if (best.empty()) {
      links_.ref.undecided = "no value of its answers came back in later calls";
      return;
    }
    std::ranges::sort(best, ComesFirst, &Candidate::place);
    if (std::ranges::any_of(best, [&](const auto& other) { return other.made != best[0].made; })) {
      links_.ref.undecided = best[0].place + " and " + best[1].place + " came back equally often";
      return;
    }
    ref_ = std::move(best.front());
    if (ref_.may_be_chance) {
      links_.ref.undecided =
          ref_.place + " came back from " + std::to_string(ref_.came_back) +
          " answers, but in another collection, whose ids may be equal by chance";
      return;
    }
    links_.ref = {ref_.place, ref_.came_back, ref_.answers, {}};
  }

  struct Taken {
    std::map<std::size_t, Pair> by_made;
    std::string doubt;  // whether the ids that it names are those of what was made; empty: none
  };

  // False: the call names nothing there that this tool made.
  bool Take(std::uint64_t value, std::size_t call, const NameSlot& slot, Taken& taken) const {
    const auto made = ref_.made.find(value);
    if (made == ref_.made.end() || made->second > call || !IsOwn(value, call, slot)) return false;
    if (!seen_[call].Succeeded()) return true;
    taken.by_made.try_emplace(made->second, Pair{made->second, call});
    const SeenValue& told = *ValueAt(seen_[made->second].answer, ref_.place);
    if (slot.nearness[number_] == Nearness::kOther) {
      taken.doubt = ", but in another collection";
    } else if (slot.nearness[number_] == Nearness::kUnnamed && MayBeChance(told)) {
      taken.doubt = ", but ids of other collections may be equal by chance";
    }
    return true;
  }

  // What takes back by the path below the slot, or by a member of its body.
  Taken TakenBack(std::size_t undo) const {
    const SeenTool& later = all_.tools_[undo];
    Taken taken;
    std::optional<NameSlot> below;
    std::size_t segment = 0;
    for (std::size_t s = 0; s < later.segments.size(); ++s) {
      if (!NamesOne(later.segments[s])) continue;
      NameSlot slot = all_.given_.SegmentSlot(undo, s);
      if (slot.name != ref_.slot && !IsNear(slot.nearness[number_])) continue;
      below = std::move(slot);
      segment = s;
    }
    std::map<std::string, NameSlot> members;
    std::size_t explained = 0;
    for (const std::size_t call : later.calls) {
      if (below) {
        Take(seen_[call].path[segment].hash, call, *below, taken);
        continue;
      }
      explained += std::ranges::any_of(seen_[call].body, [&](const SeenValue& value) {
        if (!IsName(value) || !ref_.made.contains(value.hash)) return false;
        const auto [at, is_new] = members.try_emplace(value.place);
        if (is_new) at->second = all_.given_.MemberSlot(undo, value.place);
        return Take(value.hash, call, at->second, taken);
      });
    }
    // Numbers are equal by chance, too: nearly all of its calls must be explained.
    if (!below && explained * 5 < later.calls.size() * 4) return {};
    return taken;
  }

  // Empty: all its members are known; else the one that is not. It goes without a member that some
  // call did without.
  std::string BodyFor(const std::vector<Pair>& pairs, SuggestedUndo& undo) const {
    std::map<std::string, std::size_t> places;
    for (const Pair& pair : pairs) {
      if (seen_[pair.later].form == SeenBody::kOther) return "its body";
      undo.is_form |= seen_[pair.later].form == SeenBody::kForm;
      undo.is_json |= seen_[pair.later].form == SeenBody::kJson;
      for (const SeenValue& value : seen_[pair.later].body) ++places[value.place];
    }
    for (const auto& [place, times] : places) {
      if (times < pairs.size()) continue;
      const std::string_view member = MemberOf(place);
      const auto source = sources_.Of(pairs, member, [&](const Pair& pair) {
        return std::optional(ValueAt(seen_[pair.later].body, place)->hash);
      });
      if (!source || member.empty()) return place;
      undo.body.emplace_back(member, "{" + *source + "}");
    }
    return {};
  }

  static bool NamesWhatWasMade(const std::string& path, const SuggestedUndo& undo) {
    static constexpr std::string_view kName = "{external_ref}";
    return path.find(kName) != std::string::npos ||
           std::ranges::any_of(undo.body,
                               [](const auto& member) { return member.second == kName; });
  }

  std::size_t FoundNothing(const std::vector<Pair>& pairs) const {
    std::size_t gone = 0;
    for (const Pair& pair : pairs) {
      const SeenValue* value = ValueAt(seen_[pair.made].answer, ref_.place);
      const auto* uses = value == nullptr ? nullptr : UsesOf(ref_.slot, value->hash);
      gone += uses != nullptr && std::ranges::any_of(*uses, [&](const Use& use) {
                const int status = seen_[use.call].status;
                const SeenTool& read = all_.tools_[use.tool];
                return use.call > pair.later && read.IsRead() &&
                       (status == 404 || status == 410 || (read.IsMcp() && status == 400));
              });
    }
    return gone;
  }

  static bool IsBetter(const SuggestedUndo& undo, const SuggestedUndo& other) {
    if (undo.is_guess != other.is_guess) return other.is_guess;
    return undo.taken_back > other.taken_back;
  }

  void InferUndo() {
    for (std::size_t i = 0; i < all_.tools_.size(); ++i) {
      const SeenTool& later = all_.tools_[i];
      const TakesBack takes_back = MayTakeBack(tool_, later);
      if (&later == &tool_ || later.backend != tool_.backend || takes_back == TakesBack::kNo) {
        continue;
      }
      const auto [by_made, doubt] = TakenBack(i);
      std::vector<Pair> pairs;
      for (const auto& [made, pair] : by_made) pairs.push_back(pair);
      if (pairs.empty()) continue;
      const std::string counts =
          (later.IsMcp() ? later.segments.front() : later.method + " " + later.Pattern()) +
          " named " + std::to_string(pairs.size()) + " of " + std::to_string(ref_.made.size());
      SuggestedUndo undo;
      undo.is_delete = later.method == "DELETE";
      undo.is_guess = takes_back == TakesBack::kPerhaps;
      undo.tool = i;
      undo.taken_back = pairs.size();
      undo.of = ref_.made.size();
      undo.gone = FoundNothing(pairs);
      const auto path = sources_.PathFor(later, pairs);
      std::string unknown = path ? BodyFor(pairs, undo) : "a part of its path";
      if (unknown.empty() && !NamesWhatWasMade(*path, undo)) unknown = "what it is called with";
      if (pairs.size() < kUndosMin || !unknown.empty() || !doubt.empty()) {
        links_.other_undos.push_back(counts +
                                     (unknown.empty() ? doubt : ", but nothing tells " + unknown));
        continue;
      }
      undo.request = later.IsMcp() ? *path : later.method + " " + *path;
      if (!links_.undo || IsBetter(undo, *links_.undo)) {
        if (links_.undo) links_.other_undos.push_back(links_.undo->request);
        links_.undo = std::move(undo);
      } else {
        links_.other_undos.push_back(counts);
      }
    }
  }

  const TrafficLinks& all_;
  const std::vector<Sighting>& seen_;
  const std::size_t number_;
  const SeenTool& tool_;
  const SuggestedIdentity& identity_;
  Candidate ref_;
  const ValueSources sources_;
  SuggestedLinks links_;
};

TrafficLinks::TrafficLinks(const std::vector<Sighting>& seen, const std::vector<SeenTool>& tools)
    : seen_(seen), tools_(tools), given_(seen, tools) {
  for (std::size_t t = 0; t < tools.size(); ++t) {
    if (tools[t].IsMcp()) AddArguments(t);
    for (std::size_t s = 0; s < tools[t].segments.size(); ++s) {
      if (!NamesOne(tools[t].segments[s])) continue;
      NameSlot slot = given_.SegmentSlot(t, s);
      for (const std::size_t call : tools[t].calls) {
        uses_[seen[call].path[s].hash][slot.name].push_back({call, t});
      }
      slots_.try_emplace(slot.name, std::move(slot));
    }
  }
  for (auto& [value, by_slot] : uses_) {
    for (auto& [slot, uses] : by_slot) std::ranges::sort(uses, {}, &Use::call);
  }
}

void TrafficLinks::AddArguments(std::size_t tool) {
  std::map<std::string, NameSlot> slots;  // by the argument
  for (const std::size_t call : tools_[tool].calls) {
    for (const SeenValue& value : seen_[call].body) {
      if (!IsName(value)) continue;
      const auto [at, is_new] = slots.try_emplace(value.place);
      if (is_new) at->second = given_.MemberSlot(tool, value.place);
      uses_[value.hash][at->second.name].push_back({call, tool});
    }
  }
  for (auto& [place, slot] : slots) slots_.try_emplace(slot.name, std::move(slot));
}

SuggestedLinks TrafficLinks::Of(std::size_t tool, const SuggestedIdentity& identity) const {
  return ToolLinks(*this, tool, identity).Infer();
}

}  // namespace recourse
