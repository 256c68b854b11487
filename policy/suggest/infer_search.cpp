#include "policy/suggest/infer_search.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "policy/suggest/seen_values.h"

namespace recourse {
namespace {

constexpr std::size_t kFoundMin = 3;

using PlaceSet = std::set<std::string>;

// Where in an answer an element's member stands: "answer.body#/items", 0, "ref".
struct ElementPlace {
  std::string_view list, index, member;
};

bool IsNumber(std::string_view token) {
  return !token.empty() && std::ranges::all_of(token, [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<ElementPlace> ElementOf(std::string_view place) {
  for (auto slash = place.find('/'); slash != std::string_view::npos;) {
    const auto end = place.find('/', slash + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view token = place.substr(slash + 1, end - slash - 1);
    if (IsNumber(token)) return ElementPlace{place.substr(0, slash), token, place.substr(end + 1)};
    slash = end;
  }
  return std::nullopt;
}

// Words of a condition stand between blanks.
bool CanBeCompared(std::string_view member) {
  return member.find_first_of(" =\"") == std::string_view::npos;
}

class SearchInference {
 public:
  SearchInference(const std::vector<Sighting>& seen, const std::vector<SeenTool>& tools,
                  const MadeThings& things)
      : seen_(seen),
        tools_(tools),
        things_(things),
        identity_(things.identity.identity.begin(), things.identity.identity.end()) {}

  std::optional<SuggestedProbe> Infer() {
    if (identity_.empty()) return std::nullopt;
    std::optional<SuggestedProbe> best;
    for (const SeenTool& read : tools_) {
      const bool asks = read.IsMcp() ? read.IsRead() : read.method == "GET";
      if (!asks || read.backend != things_.tool.backend) continue;
      for (const auto& [list, pairs] : PairsOf(read)) {
        auto probe = Judge(read, list.first, list.second, pairs);
        if (probe && (!best || probe->found > best->found)) best = std::move(probe);
      }
    }
    return best;
  }

 private:
  // A call that made something, and a later read whose list names it.
  struct Pair {
    std::size_t made = 0, read = 0;
    std::string_view index;
  };
  using ListAndTake = std::pair<std::string_view, std::string_view>;

  // The first read that names each.
  std::map<ListAndTake, std::vector<Pair>> PairsOf(const SeenTool& read) const {
    std::map<ListAndTake, std::vector<Pair>> pairs;
    std::set<std::tuple<std::string_view, std::string_view, std::size_t>> known;
    for (const std::size_t call : read.calls) {
      if (!seen_[call].Succeeded()) continue;
      for (const SeenValue& value : seen_[call].answer) {
        const auto made = things_.made.find(value.hash);
        if (made == things_.made.end() || made->second > call) continue;
        const auto at = ElementOf(value.place);
        if (!at || !known.emplace(at->list, at->member, made->second).second) continue;
        pairs[{at->list, at->member}].push_back({made->second, call, at->index});
      }
    }
    return pairs;
  }

  // The places of the call that have this value.
  PlaceSet SourcesOf(std::size_t made, std::uint64_t value) const {
    PlaceSet sources;
    const Sighting& call = seen_[made];
    for (std::size_t s = 0; s < things_.tool.segments.size(); ++s) {
      const std::string& segment = things_.tool.segments[s];
      if (NamesOne(segment) && call.path[s].hash == value) {
        sources.insert("path." + std::string(CaptureName(segment)));
      }
    }
    for (const auto* values : {&call.query, &call.body}) {
      for (const SeenValue& sent : *values) {
        if (sent.hash == value) sources.insert(sent.place);
      }
    }
    return sources;
  }

  // A place that has the value in all pairs, rather one of the identity; empty: there is none.
  template <class ValueOf>
  std::string SourceOf(const std::vector<Pair>& pairs, const ValueOf& value_of) const {
    PlaceSet common;
    for (const Pair& pair : pairs) {
      const std::optional<std::uint64_t> value = value_of(pair);
      if (!value) return {};
      PlaceSet sources = SourcesOf(pair.made, *value);
      if (&pair != &pairs.front()) {
        std::erase_if(sources, [&](const auto& source) { return !common.contains(source); });
      }
      common = std::move(sources);
    }
    if (common.empty()) return {};
    return *std::ranges::min_element(common, [&](const auto& a, const auto& b) {
      const bool is_a = identity_.contains(a), is_b = identity_.contains(b);
      return is_a != is_b ? is_a : ComesFirst(a, b);
    });
  }

  // Where each part of the question comes from.
  struct Question {
    std::map<std::size_t, std::string> segments;
    std::map<std::string, std::string> values;  // by "query.day", "body#/day"
    PlaceSet Sources() const {
      PlaceSet sources;
      for (const auto& [segment, source] : segments) sources.insert(source);
      for (const auto& [place, source] : values) sources.insert(source);
      return sources;
    }
  };

  // nullopt: nothing in the call tells a part of it.
  std::optional<Question> QuestionOf(const SeenTool& read, const std::vector<Pair>& pairs) const {
    Question question;
    for (std::size_t s = 0; s < read.segments.size(); ++s) {
      if (!NamesOne(read.segments[s])) continue;
      const auto source = SourceOf(
          pairs, [&](const Pair& pair) { return std::optional(seen_[pair.read].path[s].hash); });
      if (source.empty()) return std::nullopt;
      question.segments[s] = source;
    }
    for (const SeenValue& value : ValuesAsked(read, pairs.front().read)) {
      const auto source = SourceOf(pairs, [&](const Pair& pair) {
        const SeenValue* const asked = ValueAt(ValuesAsked(read, pair.read), value.place);
        return asked == nullptr ? std::nullopt : std::optional(asked->hash);
      });
      if (source.empty()) return std::nullopt;
      question.values[value.place] = source;
    }
    const bool is_alike = std::ranges::all_of(pairs, [&](const Pair& pair) {
      return ValuesAsked(read, pair.read).size() == question.values.size();
    });
    return is_alike ? std::optional(std::move(question)) : std::nullopt;
  }

  const std::vector<SeenValue>& ValuesAsked(const SeenTool& read, std::size_t call) const {
    return read.IsMcp() ? seen_[call].body : seen_[call].query;
  }

  static std::string PlaceIn(std::string_view list, std::string_view index,
                             std::string_view member) {
    return std::string(list).append("/").append(index).append("/").append(member);
  }

  // Members of the elements, each with the place whose value it has in all pairs.
  std::map<std::string, std::string> MembersOf(std::string_view list, const Pair& first,
                                               const std::vector<Pair>& pairs) const {
    std::map<std::string, std::string> members;
    for (const SeenValue& value : seen_[first.read].answer) {
      const auto at = ElementOf(value.place);
      if (!at || at->list != list || at->index != first.index || !CanBeCompared(at->member)) {
        continue;
      }
      const std::string source = SourceOf(pairs, [&](const Pair& pair) {
        const SeenValue* const own =
            ValueAt(seen_[pair.read].answer, PlaceIn(list, pair.index, at->member));
        return own == nullptr ? std::nullopt : std::optional(own->hash);
      });
      if (!source.empty()) members.try_emplace(source, at->member);
    }
    return members;
  }

  std::optional<SuggestedProbe> Judge(const SeenTool& read, std::string_view list,
                                      std::string_view take, const std::vector<Pair>& pairs) const {
    if (pairs.size() < kFoundMin) return std::nullopt;
    const auto question = QuestionOf(read, pairs);
    if (!question) return std::nullopt;
    const PlaceSet asked = question->Sources();
    const auto members = MembersOf(list, pairs.front(), pairs);
    std::map<std::string, std::string> where;  // by the place: the member
    for (const std::string& place : identity_) {
      const auto member = members.find(place);
      if (member != members.end()) where.insert(*member);
      if (member == members.end() && !asked.contains(place)) return std::nullopt;
    }
    if (where.empty()) return std::nullopt;
    for (const Pair& pair : pairs) {
      if (FindsAnother(list, take, pair, where)) return std::nullopt;
    }
    if (const auto missed = Missed(read, list, take, *question); IsMany(missed, pairs.size())) {
      return std::nullopt;
    }
    return ProbeOf(read, list, take, *question, where, pairs.size());
  }

  // What another intent made, and would be taken for this one's.
  bool FindsAnother(std::string_view list, std::string_view take, const Pair& pair,
                    const std::map<std::string, std::string>& where) const {
    const auto& answer = seen_[pair.read].answer;
    for (std::size_t i = 0; i < kSeenItemsMax; ++i) {
      const std::string index = std::to_string(i);
      const bool is_met = std::ranges::all_of(where, [&](const auto& test) {
        const SeenValue* const own = ValueAt(answer, PlaceIn(list, index, test.second));
        return own != nullptr && SourcesOf(pair.made, own->hash).contains(test.first);
      });
      const SeenValue* const name = ValueAt(answer, PlaceIn(list, index, take));
      if (!is_met || name == nullptr) continue;
      const auto made = things_.made.find(name->hash);
      const std::size_t intent = IntentOf(pair.made);
      // What its own repeat made whose answer was lost has a name that nobody was told.
      const bool is_foreign =
          made != things_.made.end() ? IntentOf(made->second) != intent : !WasRepeated(intent);
      if (is_foreign) return true;
    }
    return false;
  }

  std::size_t IntentOf(std::size_t made) const {
    const auto& calls = things_.tool.calls;
    const auto at = std::ranges::lower_bound(calls, made);
    return things_.identity.intent_of[static_cast<std::size_t>(at - calls.begin())];
  }

  bool WasRepeated(std::size_t intent) const {
    return std::ranges::count(things_.identity.intent_of, intent) > 1;
  }

  // Reads that asked for what was made before and, though the whole list was seen, had it not.
  std::size_t Missed(const SeenTool& read, std::string_view list, std::string_view take,
                     const Question& question) const {
    std::size_t missed = 0;
    for (const auto& [name, made] : things_.made) {
      for (const std::size_t call : read.calls) {
        if (call < made || !seen_[call].Succeeded() || !Asks(read, call, made, question)) continue;
        if (things_.was_touched(name, made, call)) break;
        const auto& answer = seen_[call].answer;
        std::size_t items = 0;
        const bool is_there = std::ranges::any_of(answer, [&](const SeenValue& value) {
          const auto at = ElementOf(value.place);
          if (!at || at->list != list || at->member != take) return false;
          ++items;
          return value.hash == name;
        });
        missed += !is_there && items < kSeenItemsMax;
        break;
      }
    }
    return missed;
  }

  bool Asks(const SeenTool& read, std::size_t call, std::size_t made,
            const Question& question) const {
    const auto& values = ValuesAsked(read, call);
    return values.size() == question.values.size() &&
           std::ranges::all_of(question.segments,
                               [&](const auto& part) {
                                 const auto value = seen_[call].path[part.first].hash;
                                 return SourcesOf(made, value).contains(part.second);
                               }) &&
           std::ranges::all_of(question.values, [&](const auto& part) {
             const SeenValue* const value = ValueAt(values, part.first);
             return value != nullptr && SourcesOf(made, value->hash).contains(part.second);
           });
  }

  static SuggestedProbe ProbeOf(const SeenTool& read, std::string_view list, std::string_view take,
                                const Question& question,
                                const std::map<std::string, std::string>& where,
                                std::size_t found) {
    SuggestedProbe probe;
    const auto braced = [](const std::string& source) { return "{" + source + "}"; };
    if (read.IsMcp()) {
      probe.request = read.segments.front();
      for (const auto& [place, source] : question.values) {
        probe.arguments.emplace_back(MemberOf(place), braced(source));
      }
    } else {
      probe.request = "GET ";
      for (std::size_t s = 0; s < read.segments.size(); ++s) {
        const auto source = question.segments.find(s);
        const bool is_literal = source == question.segments.end();
        probe.request += "/" + (is_literal ? read.segments[s] : braced(source->second));
      }
      for (const auto& [place, source] : question.values) {
        const std::string name = place.substr(place.find('.') + 1);
        probe.request += (probe.request.find('?') == std::string::npos ? "?" : "&") + name + "=";
        probe.request += braced(source);
      }
    }
    probe.happened = list;
    probe.take = take;
    const PlaceSet asked = question.Sources();
    probe.asks_for.assign(asked.begin(), asked.end());
    for (const auto& [place, member] : where) {
      probe.where.push_back(member + " == " + braced(place));
      probe.asks_for.push_back(place);
    }
    probe.found = found;
    return probe;
  }

  const std::vector<Sighting>& seen_;
  const std::vector<SeenTool>& tools_;
  const MadeThings& things_;
  const PlaceSet identity_;
};

}  // namespace

std::optional<SuggestedProbe> InferSearch(const std::vector<Sighting>& seen,
                                          const std::vector<SeenTool>& tools,
                                          const MadeThings& things) {
  return SearchInference(seen, tools, things).Infer();
}

}  // namespace recourse
