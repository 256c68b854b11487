#include "policy/suggest/given_names.h"

#include <algorithm>
#include <array>
#include <set>

#include "policy/suggest/seen_values.h"
#include "policy/suggest/taking_back.h"
#include "policy/uri/opposites.h"

namespace recourse {
namespace {

constexpr std::size_t kGivenLookBack = 256;  // calls that gave one value

using Words = std::set<std::string>;

constexpr std::array<std::string_view, 14> kGeneric{
    "id",   "ref",      "reference",  "key",    "uuid",   "guid",    "number",
    "code", "external", "identifier", "object", "target", "created", "api"};
constexpr std::array<std::string_view, 4> kMakes{"create", "add", "new", "make"};
constexpr std::array<std::string_view, 9> kQuestions{"get",    "list", "find", "search",  "query",
                                                     "lookup", "read", "show", "describe"};

template <std::size_t N>
bool IsOneOf(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, word) != words.end();
}

// "order" of "orders", "book" of "booking".
std::string StemOf(std::string word) {
  const auto cut = [&](std::string_view end, std::string_view instead) {
    if (word.size() < end.size() + 3 || !word.ends_with(end)) return false;
    word.replace(word.size() - end.size(), end.size(), instead);
    return true;
  };
  if (cut("ies", "y") || cut("sses", "ss") || cut("xes", "x") || cut("ches", "ch")) return word;
  if (!word.ends_with("ss")) cut("s", "");
  cut("ing", "");
  return word;
}

// Those of a name that tell what it is about.
Words StemsOf(std::string_view name) {
  Words stems;
  for (const std::string& word : WordsOf(name)) {
    std::string stem = StemOf(word);
    const bool is_empty_word = IsOneOf(stem, kGeneric) || IsOneOf(word, kGeneric) ||
                               IsOneOf(word, kMakes) || IsOneOf(word, kQuestions) ||
                               IsTakingBackWord(word);
    if (!is_empty_word) stems.insert(std::move(stem));
  }
  return stems;
}

bool Meet(const Words& some, const Words& others) {
  return std::ranges::any_of(some, [&](const auto& word) { return others.contains(word); });
}

// The path of a create without a verb at its end.
std::size_t CollectionSize(const SeenTool& tool) {
  const std::size_t size = tool.segments.size();
  return size > 1 && IsOneOf(tool.segments.back(), kMakes) ? size - 1 : size;
}

// The words of the last literal of so many segments.
Words CollectionOf(const SeenTool& tool, std::size_t size) {
  while (size > 0 && NamesOne(tool.segments[size - 1])) --size;
  return size == 0 ? Words() : StemsOf(tool.segments[size - 1]);
}

Words MadeBy(const SeenTool& tool) { return CollectionOf(tool, CollectionSize(tool)); }

bool IsPathOf(const SeenTool& made, const SeenTool& later, std::size_t segment) {
  if (CollectionSize(made) != segment) return false;
  for (std::size_t s = 0; s < segment; ++s) {
    const bool is_name = NamesOne(made.segments[s]);
    if (is_name != NamesOne(later.segments[s])) return false;
    if (!is_name && made.segments[s] != later.segments[s]) return false;
  }
  return true;
}

bool MayMake(const SeenTool& tool) {
  if (!tool.IsMcp()) return tool.method == "POST";
  return !tool.IsRead() && std::ranges::none_of(WordsOf(tool.segments.front()), [](const auto& w) {
    return IsOneOf(w, kQuestions);
  });
}

bool IsSaidIn(const std::vector<SeenValue>& request, const SeenValue& answered, bool anywhere) {
  const auto member = LastToken(answered.place);
  return std::ranges::any_of(request, [&](const SeenValue& said) {
    return said.hash == answered.hash && (anywhere || LastToken(said.place) == member);
  });
}

}  // namespace

GivenNames::GivenNames(const std::vector<Sighting>& seen, const std::vector<SeenTool>& tools)
    : seen_(seen), tools_(tools), makes_(tools.size()) {
  for (std::size_t t = 0; t < tools.size(); ++t) {
    if (!MayMake(tools[t])) continue;
    for (const std::size_t number : tools[t].calls) {
      const Sighting& call = seen[number];
      if (!call.Succeeded()) continue;
      for (const SeenValue& value : call.answer) {
        const auto is_in_path = [&](const auto& segment) { return segment.hash == value.hash; };
        if (!IsName(value) || std::ranges::any_of(call.path, is_in_path)) continue;
        // Equal numbers elsewhere in a request are chance.
        const bool is_echo =
            IsSaidIn(call.body, value, tools[t].IsMcp() || value.kind != ValueKind::kNumber);
        makes_[t] = static_cast<char>(makes_[t] != 0 || !is_echo);
        auto& given = givers_[value.hash][t];
        if (!given.empty() && given.back().call == number) {
          given.back().is_echo = given.back().is_echo && is_echo;
        } else {
          given.push_back({number, is_echo});
        }
      }
    }
  }
}

void GivenNames::Finish(NameSlot& slot, const SeenTool& later) const {
  for (std::size_t t = 0; t < tools_.size(); ++t) {
    slot.has_near = slot.has_near || (makes_[t] != 0 && IsNear(slot.nearness[t]) &&
                                      tools_[t].backend == later.backend);
  }
}

NameSlot GivenNames::SegmentSlot(std::size_t tool, std::size_t segment) const {
  const SeenTool& later = tools_[tool];
  NameSlot slot{later.backend + " /", {}};
  for (std::size_t i = 0; i < segment; ++i) {
    slot.name += (NamesOne(later.segments[i]) ? "{}" : later.segments[i]) + "/";
  }
  const Words words = CollectionOf(later, segment);
  for (const SeenTool& made : tools_) {
    slot.nearness.push_back(IsPathOf(made, later, segment)            ? Nearness::kSamePath
                            : !words.empty() && MadeBy(made) == words ? Nearness::kSameCollection
                            : words.empty()                           ? Nearness::kUnnamed
                                                                      : Nearness::kOther);
  }
  Finish(slot, later);
  return slot;
}

NameSlot GivenNames::MemberSlot(std::size_t tool, std::string_view place) const {
  const SeenTool& later = tools_[tool];
  NameSlot slot{later.backend + " " + later.Match() + " " + std::string(place), {}};
  const Words member = StemsOf(LastToken(place));
  const Words around = CollectionOf(later, later.segments.size());
  for (const SeenTool& made : tools_) {
    const Words words = MadeBy(made);
    slot.nearness.push_back(Meet(member, words)                ? Nearness::kSamePath
                            : Meet(around, words)              ? Nearness::kSameCollection
                            : member.empty() && around.empty() ? Nearness::kUnnamed
                                                               : Nearness::kOther);
  }
  Finish(slot, later);
  return slot;
}

bool GivenNames::IsOfUse(const Given& given, std::size_t use) const {
  const Sighting& made = seen_[given.call];
  const Sighting& later = seen_[use];
  return made.trace == later.trace && (made.trace != 0 || made.caller == later.caller);
}

std::optional<std::size_t> GivenNames::GiverAmong(const ByTool& givers, std::size_t use,
                                                  const NameSlot& slot, Nearness nearness,
                                                  bool is_echo) const {
  std::optional<std::size_t> last, only;
  std::size_t last_call = 0, tools = 0;
  for (const auto& [tool, given] : givers) {
    const bool is_of_level =
        IsNear(nearness) ? slot.nearness[tool] == nearness : !IsNear(slot.nearness[tool]);
    if (!is_of_level || tools_[tool].backend != seen_[use].backend) continue;
    auto at = std::ranges::lower_bound(given, use, {}, &Given::call);
    bool is_before = false;
    for (std::size_t i = 0; at != given.begin() && i < kGivenLookBack; ++i) {
      --at;
      if (at->is_echo != is_echo) continue;
      is_before = true;
      if (!IsOfUse(*at, use)) continue;
      if (!last || at->call > last_call) {
        last = tool;
        last_call = at->call;
      }
      break;
    }
    if (!is_before) continue;
    only = tool;
    ++tools;
  }
  if (last) return last;
  return tools == 1 ? only : std::nullopt;
}

std::optional<std::size_t> GivenNames::GiverOf(std::uint64_t value, std::size_t use,
                                               const NameSlot& slot) const {
  const auto at = givers_.find(value);
  if (at == givers_.end()) return std::nullopt;
  for (const Nearness nearness : {Nearness::kSamePath, Nearness::kSameCollection}) {
    for (const bool is_echo : {false, true}) {
      if (auto giver = GiverAmong(at->second, use, slot, nearness, is_echo)) return giver;
    }
  }
  if (slot.has_near) return std::nullopt;
  return GiverAmong(at->second, use, slot, Nearness::kOther, false);
}

bool GivenNames::IsOfOneTool(std::uint64_t value) const {
  const auto at = givers_.find(value);
  return at != givers_.end() &&
         std::ranges::count_if(at->second, [](const auto& of) {
           return std::ranges::any_of(of.second, [](const Given& given) { return !given.is_echo; });
         }) == 1;
}

}  // namespace recourse
