#include "policy/suggest/told_names.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "policy/import/import_text.h"

namespace recourse {
namespace {

bool IsDigitOfWord(char c) { return c >= '0' && c <= '9'; }

// Never 0, which stands for any.
std::uint64_t PathHash(const Sighting& call, std::size_t depth) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < depth; ++i) hash = (hash ^ call.path[i].hash) * 0x100000001b3;
  return hash | 1;
}

// Of a thing that a path names, beside what a reference looks like.
constexpr std::array<std::string_view, 7> kCalled{"name",  "slug",     "code", "handle",
                                                  "login", "username", "title"};

bool NamesAThing(std::string_view place) {
  const std::string_view member = place.substr(place.rfind('/') + 1);
  return LooksLikeIdName(member) || std::ranges::find(kCalled, member) != kCalled.end();
}

}  // namespace

bool EndsInNumber(std::string_view word) {
  return word.size() > 1 && IsDigitOfWord(word.back()) &&
         !(word.size() == 2 && (word[0] == 'v' || word[0] == 'V'));
}

ToldNames::ToldNames(const std::vector<Sighting>& seen) {
  std::unordered_set<std::uint64_t> words;
  for (const Sighting& call : seen) {
    for (const SeenSegment& segment : call.path) {
      if (!segment.word.empty()) words.insert(segment.hash);
    }
  }
  for (const Sighting& call : seen) {
    for (const SeenValue& value : call.answer) {
      if (value.kind != ValueKind::kWord || !words.contains(value.hash)) continue;
      const bool is_named = NamesAThing(value.place);
      for (const std::uint64_t asked : {std::uint64_t{0}, PathHash(call, call.path.size())}) {
        for (const bool named : {false, is_named}) {
          told_.try_emplace({call.backend, value.hash, asked, named},
                            Told{call.wall_ms, value.place});
        }
      }
    }
  }
}

const ToldNames::Told* ToldNames::Find(const Sighting& call, std::size_t depth, std::uint64_t asked,
                                       bool is_named) const {
  const auto at = told_.find({call.backend, call.path[depth].hash, asked, is_named});
  return at == told_.end() || at->second.wall_ms > call.wall_ms ? nullptr : &at->second;
}

std::string_view ToldNames::PlaceOf(const Sighting& call, std::size_t depth) const {
  const Told* const told = Find(call, depth, 0, false);
  return told == nullptr ? std::string_view() : told->place;
}

bool ToldNames::WasTold(const Sighting& call, std::size_t depth) const {
  const std::uint64_t above = PathHash(call, depth);
  if (Find(call, depth, above, true) != nullptr) return true;
  return EndsInNumber(call.path[depth].word) &&
         (Find(call, depth, above, false) != nullptr || Find(call, depth, 0, true) != nullptr);
}

}  // namespace recourse
