#include "policy/suggest/infer_put_back.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "policy/suggest/seen_values.h"

namespace recourse {
namespace {

constexpr std::size_t kShownMin = 2;
constexpr std::string_view kAnswer = "answer.";

using Members = std::set<std::string>;

// "address" of "body#/address/street"; empty: it lies below no member.
std::string TopMemberOf(std::string_view place) {
  static constexpr std::string_view kTop = "body#/";
  if (!place.starts_with(kTop)) return {};
  place.remove_prefix(kTop.size());
  return std::string(place.substr(0, place.find('/')));
}

// Empty: there is a value that lies below no member.
Members MembersOf(const std::vector<SeenValue>& values, std::string_view prefix) {
  Members members;
  for (const SeenValue& value : values) {
    std::string_view place = value.place;
    if (!place.starts_with(prefix)) return {};
    std::string member = TopMemberOf(place.substr(prefix.size()));
    // A pointer's escapes are not written here.
    if (member.empty() || member.find('~') != std::string::npos) return {};
    members.insert(std::move(member));
  }
  return members;
}

class PutBackInference {
 public:
  PutBackInference(const std::vector<Sighting>& seen, const SeenTool& tool, const SeenTool& read)
      : seen_(seen), tool_(tool), read_(read) {}

  std::optional<SuggestedPutBack> Infer() const {
    const auto sets = AllSets();
    if (!sets || !IsShown(*sets)) return std::nullopt;
    SuggestedPutBack made;
    made.shown = Shown(*sets);
    if (made.shown < kShownMin) return std::nullopt;
    for (const std::string& segment : tool_.segments) {
      made.path += '/';
      made.path += NamesOne(segment) ? "{path." + std::string(CaptureName(segment)) + "}" : segment;
    }
    // A PUT replaces all, so all of it goes back.
    if (tool_.method == "PATCH") made.members.assign(sets->begin(), sets->end());
    return made;
  }

 private:
  // What its calls set; nullopt: that cannot be told, or a PUT does not always set all of it.
  std::optional<Members> AllSets() const {
    Members all;
    for (const std::size_t number : tool_.calls) {
      const Sighting& call = seen_[number];
      const Members sets = MembersOf(call.body, "");
      if (call.form != SeenBody::kJson || !call.query.empty() || sets.empty()) return std::nullopt;
      if (tool_.method == "PUT" && !all.empty() && sets != all) return std::nullopt;
      all.insert(sets.begin(), sets.end());
    }
    return all;
  }

  bool IsShown(const Members& sets) const {
    return std::ranges::all_of(read_.calls, [&](std::size_t number) {
      const Sighting& read = seen_[number];
      if (!read.Succeeded()) return true;
      const Members shows = MembersOf(read.answer, kAnswer);
      return tool_.method == "PUT" ? shows == sets : std::ranges::includes(shows, sets);
    });
  }

  bool IsOfOneThing(const Sighting& one, const Sighting& other) const {
    for (std::size_t s = 0; s < tool_.segments.size(); ++s) {
      if (NamesOne(tool_.segments[s]) && one.path[s].hash != other.path[s].hash) return false;
    }
    return true;
  }

  // The last call before that read which changed what it reads.
  const Sighting* LastBefore(std::size_t number) const {
    const auto before = std::ranges::lower_bound(tool_.calls, number);
    const auto last =
        std::find_if(std::reverse_iterator(before), tool_.calls.rend(), [&](std::size_t call) {
          return seen_[call].Succeeded() && IsOfOneThing(seen_[call], seen_[number]);
        });
    return last == tool_.calls.rend() ? nullptr : &seen_[*last];
  }

  // Reads that showed all that the last call before them had set; 0: of some member none did, or
  // too many showed something else, such as asterisks for a secret.
  std::size_t Shown(const Members& sets) const {
    struct Counts {
      std::size_t shown = 0, differ = 0;
    };
    std::map<std::string, Counts> by_member;
    std::size_t whole = 0;
    for (const std::size_t number : read_.calls) {
      const Sighting& read = seen_[number];
      if (!read.Succeeded() || !read.query.empty()) continue;
      const Sighting* const last = LastBefore(number);
      if (last == nullptr) continue;
      bool is_whole = true;
      for (const SeenValue& value : last->body) {
        const SeenValue* const now = ValueAt(read.answer, std::string(kAnswer) + value.place);
        const bool is_shown = now != nullptr && now->hash == value.hash;
        Counts& counts = by_member[TopMemberOf(value.place)];
        ++(is_shown ? counts.shown : counts.differ);
        is_whole = is_whole && is_shown;
      }
      whole += is_whole;
    }
    const bool are_known = std::ranges::all_of(sets, [&](const std::string& member) {
      const Counts& counts = by_member[member];
      return counts.shown > 0 && (counts.differ == 0 || !IsMany(counts.differ, counts.shown));
    });
    return are_known ? whole : 0;
  }

  const std::vector<Sighting>& seen_;
  const SeenTool& tool_;
  const SeenTool& read_;
};

}  // namespace

std::optional<SuggestedPutBack> InferPutBack(const std::vector<Sighting>& seen,
                                             const std::vector<SeenTool>& tools,
                                             const SeenTool& tool) {
  if (tool.method != "PATCH" && tool.method != "PUT") return std::nullopt;
  const auto read = std::ranges::find_if(tools, [&](const SeenTool& other) {
    return other.method == "GET" && other.backend == tool.backend &&
           other.segments == tool.segments;
  });
  if (read == tools.end()) return std::nullopt;
  return PutBackInference(seen, tool, *read).Infer();
}

}  // namespace recourse
