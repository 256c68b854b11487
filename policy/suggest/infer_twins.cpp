#include "policy/suggest/infer_twins.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "policy/suggest/seen_values.h"

namespace recourse {
namespace {

constexpr std::int64_t kTwinMs = 30 * 1000;
constexpr std::size_t kTwinLookBack = 32;
constexpr std::size_t kBodiesMin = 5;  // fewer may all differ by chance

class TwinSearch {
 public:
  TwinSearch(const std::vector<Sighting>& seen, const SeenTool& tool,
             const std::vector<SeenFields>& fields)
      : seen_(seen), tool_(tool), fields_(fields) {}

  std::vector<Twin> Find() {
    FindFresh();
    if (fresh_.empty() || !TellsApart()) return {};
    std::vector<Twin> twins;
    for (std::size_t again = 1; again < fields_.size(); ++again) {
      const std::size_t from = again > kTwinLookBack ? again - kTwinLookBack : 0;
      for (std::size_t first = again; first-- > from;) {
        if (Call(again).wall_ms - Call(first).wall_ms > kTwinMs) break;
        Repeat pair{first, again, Differing(fields_[first], fields_[again])};
        if (!AreOfOne(Call(first), Call(again)) || pair.differs.empty() ||
            pair.differs.size() >= fields_[again].size() ||
            !std::ranges::all_of(pair.differs,
                                 [&](const auto& of) { return fresh_.contains(of); })) {
          continue;
        }
        twins.push_back({std::move(pair), Call(again).trace != 0});
        break;
      }
    }
    return twins;
  }

 private:
  const Sighting& Call(std::size_t number) const { return seen_[tool_.calls[number]]; }

  static bool AreOfOne(const Sighting& first, const Sighting& again) {
    return first.caller == again.caller && first.trace == again.trace &&
           (first.agent_key == 0 || again.agent_key == 0 || first.agent_key == again.agent_key);
  }

  // Places outside the path that have another value in nearly every body, which names nothing.
  void FindFresh() {
    std::set<std::vector<std::uint64_t>> bodies;
    std::map<std::string, std::set<std::uint64_t>> values;
    std::map<std::string, ValueKind> kinds;
    for (const SeenFields& fields : fields_) {
      std::vector<std::uint64_t> body;
      for (const auto& [place, field] : fields) {
        body.push_back(field.hash);
        values[place].insert(field.hash);
        const auto [at, is_new] = kinds.try_emplace(place, field.kind);
        // Of several kinds it is none that counts.
        if (!is_new && at->second != field.kind) at->second = ValueKind::kText;
      }
      bodies.insert(std::move(body));
    }
    bodies_ = bodies.size();
    if (bodies_ < kBodiesMin) return;
    for (const auto& [place, of] : values) {
      const ValueKind kind = kinds[place];
      const bool may_be = kind == ValueKind::kTime || kind == ValueKind::kOpaque ||
                          kind == ValueKind::kWord || kind == ValueKind::kNumber;
      if (!may_be || place.starts_with("path.") || of.size() * 10 < bodies_ * 9) continue;
      if (kind == ValueKind::kTime || NeverComesBack(place, of)) fresh_.insert(place);
    }
  }

  bool NeverComesBack(const std::string& place, const std::set<std::uint64_t>& values) const {
    std::unordered_set<std::size_t> own(tool_.calls.begin(), tool_.calls.end());
    std::set<std::uint64_t> sent;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const bool is_own = own.contains(i);
      const auto met = [&](const auto& value) { return values.contains(value.hash); };
      const auto elsewhere = [&](const SeenValue& value) {
        return met(value) && !(is_own && value.place == place);
      };
      if (std::ranges::any_of(seen_[i].path, met) ||
          std::ranges::any_of(seen_[i].query, elsewhere) ||
          std::ranges::any_of(seen_[i].body, elsewhere)) {
        return false;
      }
      if (is_own) {
        for (const SeenValue& value : seen_[i].body) sent.insert(value.hash);
      }
      // A read tells afterwards what was sent.
      if (std::ranges::any_of(seen_[i].answer, [&](const SeenValue& value) {
            return met(value) && !sent.contains(value.hash);
          })) {
        return false;
      }
    }
    return true;
  }

  // Whether what else the calls say is another thing in most of them: calls that all say the same
  // are no twins.
  bool TellsApart() const {
    std::set<std::vector<std::uint64_t>> rests;
    for (const SeenFields& fields : fields_) {
      std::vector<std::uint64_t> rest;
      for (const auto& [place, field] : fields) {
        if (!fresh_.contains(place)) rest.push_back(field.hash);
      }
      if (!rest.empty()) rests.insert(std::move(rest));
    }
    return rests.size() * 2 >= bodies_;
  }

  const std::vector<Sighting>& seen_;
  const SeenTool& tool_;
  const std::vector<SeenFields>& fields_;
  std::size_t bodies_ = 0;
  std::set<std::string> fresh_;
};

}  // namespace

std::vector<Twin> FindTwins(const std::vector<Sighting>& seen, const SeenTool& tool,
                            const std::vector<SeenFields>& fields) {
  return TwinSearch(seen, tool, fields).Find();
}

}  // namespace recourse
