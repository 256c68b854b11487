#include "policy/suggest/infer_links.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "policy/import/import_text.h"
#include "policy/suggest/seen_values.h"
#include "policy/suggest/taking_back.h"

namespace recourse {
namespace {

constexpr std::size_t kBackMin = 3;
constexpr std::size_t kNamedBackMin = 2;  // where the member is called like a name
constexpr std::size_t kUndosMin = 2;
constexpr std::size_t kProbesMin = 3;

// "shop /orders/" of a value in "/orders/{id}/items".
std::string SlotOf(const SeenTool& tool, std::size_t segment) {
  std::string slot = tool.backend + " /";
  for (std::size_t i = 0; i < segment; ++i) {
    slot += (NamesOne(tool.segments[i]) ? "{}" : tool.segments[i]) + "/";
  }
  return slot;
}

std::string SlotOf(const SeenTool& tool, const SeenValue& argument) {
  return tool.backend + " " + tool.segments.front() + " " + argument.place;
}

std::string_view LastToken(std::string_view place) { return place.substr(place.rfind('/') + 1); }

}  // namespace

// What is looked up for one tool.
class ToolLinks {
 public:
  ToolLinks(const TrafficLinks& all, const SeenTool& tool, const SuggestedIdentity& identity)
      : all_(all), seen_(all.seen_), tool_(tool), identity_(identity) {}

  SuggestedLinks Infer() {
    if (tool_.method != "POST" && !tool_.IsMcp()) return {};
    InferRef();
    if (links_.ref.place.empty()) return std::move(links_);
    InferUndo();
    InferProbe();
    // A list is searched for all of the identity, which one value alone seldom is.
    if (!links_.probe || !links_.probe->IsSure(identity_)) {
      const MadeThings things{tool_, identity_, ref_.made,
                              [this](std::uint64_t name, std::size_t after, std::size_t before) {
                                return WasTouched(name, after, before);
                              }};
      if (auto search = InferSearch(seen_, all_.tools_, things)) links_.probe = std::move(search);
    }
    return std::move(links_);
  }

 private:
  using Use = TrafficLinks::Use;
  // A call of the tool, and another one that names what it made.
  struct Pair {
    std::size_t made = 0, later = 0;
  };
  struct Candidate {
    std::string place, slot;
    std::size_t came_back = 0, answers = 0;
    std::map<std::uint64_t, std::size_t> made;  // by value: the first call that told it
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
    std::size_t echoes = 0;
    for (std::size_t i = 0; i < tool_.calls.size(); ++i) {
      const Sighting& call = seen_[tool_.calls[i]];
      const SeenValue* value = call.Succeeded() ? ValueAt(call.answer, candidate.place) : nullptr;
      if (value == nullptr) continue;
      if (!IsName(*value)) return false;
      const auto [at, is_new] = intents.try_emplace(value->hash, identity_.intent_of[i]);
      if (!is_new && at->second != identity_.intent_of[i]) return false;
      if (is_new) candidate.made[value->hash] = tool_.calls[i];
      const auto is_it = [&](const auto& other) { return other.hash == value->hash; };
      echoes += std::ranges::any_of(call.body, is_it) || std::ranges::any_of(call.path, is_it);
      ++candidate.answers;
    }
    return candidate.answers > 0 && !IsMany(echoes, candidate.answers);
  }

  // Finds the slot in which most of its values come back. Those that were in a slot before they
  // were made are not its own.
  void FindSlot(Candidate& candidate) const {
    struct Counts {
      std::size_t back = 0, before = 0;
    };
    std::map<std::string, Counts> by_slot;
    for (const auto& [value, made] : candidate.made) {
      const auto at = all_.uses_.find(value);
      if (at == all_.uses_.end()) continue;
      for (const auto& [slot, uses] : at->second) {
        if (!slot.starts_with(tool_.backend + " ")) continue;
        Counts& counts = by_slot[slot];
        counts.back += uses.back().call > made;
        counts.before += uses.front().call < made;
      }
    }
    for (const auto& [slot, counts] : by_slot) {
      const bool is_own = counts.before == 0 || !IsMany(counts.before, counts.back);
      if (!is_own || counts.back <= candidate.came_back) continue;
      candidate.came_back = counts.back;
      candidate.slot = slot;
    }
  }

  void InferRef() {
    std::set<std::string> places;
    for (const std::size_t call : tool_.calls) {
      for (const SeenValue& value : seen_[call].answer) places.insert(value.place);
    }
    std::vector<Candidate> best;
    for (const std::string& place : places) {
      Candidate candidate{place, {}, 0, 0, {}};
      if (!Gather(candidate)) continue;
      FindSlot(candidate);
      const bool is_named = LooksLikeIdName(LastToken(place));
      if (candidate.came_back < (is_named ? kNamedBackMin : kBackMin)) continue;
      if (!best.empty() && candidate.came_back < best.front().came_back) continue;
      if (!best.empty() && candidate.came_back > best.front().came_back) best.clear();
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
    links_.ref = {ref_.place, ref_.came_back, ref_.answers, {}};
  }

  // Where a later call's value comes from in all pairs: "external_ref", "path.id", "body#/amount".
  template <class Of>
  std::optional<std::string> SourceOf(const std::vector<Pair>& pairs, Of value_of) const {
    std::set<std::string> sources;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto value = value_of(pairs[i]);
      if (!value) return std::nullopt;
      std::set<std::string> own;
      const Sighting& made = seen_[pairs[i].made];
      const SeenValue* ref = ValueAt(made.answer, ref_.place);
      if (ref != nullptr && ref->hash == *value) own.insert("external_ref");
      for (std::size_t s = 0; s < tool_.segments.size(); ++s) {
        if (!NamesOne(tool_.segments[s]) || made.path[s].hash != *value) continue;
        own.insert("path." + std::string(CaptureName(tool_.segments[s])));
      }
      for (const SeenValue& sent : made.body) {
        if (sent.hash == *value) own.insert(sent.place);
      }
      if (i == 0) sources = std::move(own);
      std::erase_if(sources, [&](const auto& source) { return i > 0 && !own.contains(source); });
    }
    if (sources.contains("external_ref")) return "external_ref";
    if (sources.empty()) return std::nullopt;
    return *std::ranges::min_element(sources, ComesFirst);
  }

  // Of an MCP server: the name of the tool.
  std::optional<std::string> PathFor(const SeenTool& later, const std::vector<Pair>& pairs) const {
    if (later.IsMcp()) return later.segments.front();
    std::string path;
    for (std::size_t s = 0; s < later.segments.size(); ++s) {
      path += '/';
      if (!NamesOne(later.segments[s])) {
        path += later.segments[s];
        continue;
      }
      const auto source = SourceOf(
          pairs, [&](const Pair& pair) { return std::optional(seen_[pair.later].path[s].hash); });
      if (!source) return std::nullopt;
      path += "{" + *source + "}";
    }
    return path;
  }

  // What takes back by the path below the slot, or by a member of its body.
  std::vector<Pair> TakenBack(std::size_t undo) const {
    const SeenTool& later = all_.tools_[undo];
    std::map<std::size_t, Pair> pairs;  // by what was made
    const auto add = [&](std::size_t made, std::size_t call) {
      if (call > made && seen_[call].Succeeded()) pairs.try_emplace(made, Pair{made, call});
    };
    std::optional<std::size_t> segment;
    for (std::size_t s = 0; s < later.segments.size(); ++s) {
      if (NamesOne(later.segments[s]) && SlotOf(later, s) == ref_.slot) segment = s;
    }
    std::size_t explained = 0;
    for (const std::size_t call : later.calls) {
      if (segment) {
        const auto made = ref_.made.find(seen_[call].path[*segment].hash);
        if (made != ref_.made.end()) add(made->second, call);
        continue;
      }
      for (const SeenValue& value : seen_[call].body) {
        const auto made = IsName(value) ? ref_.made.find(value.hash) : ref_.made.end();
        if (made == ref_.made.end() || made->second > call) continue;
        add(made->second, call);
        ++explained;
        break;
      }
    }
    // Numbers are equal by chance, too: nearly all of its calls must be explained.
    if (!segment && explained * 5 < later.calls.size() * 4) pairs.clear();
    std::vector<Pair> out;
    for (const auto& [made, pair] : pairs) out.push_back(pair);
    return out;
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
      const auto source = SourceOf(pairs, [&](const Pair& pair) {
        return std::optional(ValueAt(seen_[pair.later].body, place)->hash);
      });
      const std::string_view member = MemberOf(place);
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
      const auto pairs = TakenBack(i);
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
      const auto path = PathFor(later, pairs);
      std::string unknown = path ? BodyFor(pairs, undo) : "a part of its path";
      if (unknown.empty() && !NamesWhatWasMade(*path, undo)) unknown = "what it is called with";
      if (pairs.size() < kUndosMin || !unknown.empty()) {
        links_.other_undos.push_back(counts +
                                     (unknown.empty() ? "" : ", but nothing tells " + unknown));
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
    std::vector<Pair> pairs;
    std::size_t missed = 0;
    std::set<std::string> places;  // that had the name of what was made, in all of them
  };

  void InferProbe() {
    std::map<std::pair<std::string, std::uint64_t>, std::vector<std::size_t>> asked;
    for (const std::string& anchor : identity_.anchors) {
      if (!anchor.starts_with("body#/")) continue;
      for (const std::size_t call : tool_.calls) {
        const SeenValue* value = ValueAt(seen_[call].body, anchor);
        if (value != nullptr) asked[{anchor, value->hash}].push_back(call);
      }
    }
    std::map<Question, Replies> questions;
    for (std::size_t t = 0; t < all_.tools_.size(); ++t) {
      const SeenTool& read = all_.tools_[t];
      const bool asks = read.IsMcp() ? read.IsRead() : read.method == "GET";
      if (!asks || read.backend != tool_.backend) continue;
      for (const std::size_t call : read.calls) {
        if (seen_[call].Succeeded()) Ask(t, call, asked, questions);
      }
    }
    for (auto& [question, replies] : questions) TakeProbe(question, replies);
  }

  void Ask(std::size_t tool, std::size_t call,
           const std::map<std::pair<std::string, std::uint64_t>, std::vector<std::size_t>>& asked,
           std::map<Question, Replies>& questions) const {
    const Sighting& read = seen_[call];
    const SeenTool& of = all_.tools_[tool];
    for (const std::string& anchor : identity_.anchors) {
      const auto note = [&](Question question, std::uint64_t value) {
        const auto at = asked.find({anchor, value});
        if (at != asked.end()) Note(question, at->second, call, questions);
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
      const SeenValue* value = ValueAt(seen_[call].answer, ref_.place);
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

  void TakeProbe(const Question& question, const Replies& replies) {
    std::set<std::size_t> intents;
    for (const Pair& pair : replies.pairs) intents.insert(pair.made);
    if (intents.size() < kProbesMin || replies.places.empty()) return;
    if (replies.missed > 0 && IsMany(replies.missed, replies.pairs.size())) return;
    if (links_.probe && links_.probe->found >= intents.size()) return;
    const SeenTool& read = all_.tools_[question.tool];
    auto path = PathFor(read, replies.pairs);
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
    links_.probe = std::move(probe);
  }

  const TrafficLinks& all_;
  const std::vector<Sighting>& seen_;
  const SeenTool& tool_;
  const SuggestedIdentity& identity_;
  Candidate ref_;
  SuggestedLinks links_;
};

TrafficLinks::TrafficLinks(const std::vector<Sighting>& seen, const std::vector<SeenTool>& tools)
    : seen_(seen), tools_(tools) {
  for (std::size_t t = 0; t < tools.size(); ++t) {
    if (tools[t].IsMcp()) AddArguments(t);
    for (std::size_t s = 0; s < tools[t].segments.size(); ++s) {
      if (!NamesOne(tools[t].segments[s])) continue;
      const std::string slot = SlotOf(tools[t], s);
      for (const std::size_t call : tools[t].calls) {
        uses_[seen[call].path[s].hash][slot].push_back({call, t});
      }
    }
  }
  for (auto& [value, by_slot] : uses_) {
    for (auto& [slot, uses] : by_slot) std::ranges::sort(uses, {}, &Use::call);
  }
}

void TrafficLinks::AddArguments(std::size_t tool) {
  for (const std::size_t call : tools_[tool].calls) {
    for (const SeenValue& value : seen_[call].body) {
      if (IsName(value)) uses_[value.hash][SlotOf(tools_[tool], value)].push_back({call, tool});
    }
  }
}

SuggestedLinks TrafficLinks::Of(std::size_t tool, const SuggestedIdentity& identity) const {
  return ToolLinks(*this, tools_[tool], identity).Infer();
}

}  // namespace recourse
