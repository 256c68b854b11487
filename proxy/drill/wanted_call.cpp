#include "proxy/drill/wanted_call.h"

#include <algorithm>

#include "proxy/drill/script.h"

namespace recourse {
namespace {

bool IsSamePlace(const Selector& a, const Selector& b) {
  return a.source == b.source && a.name == b.name;
}

bool AreAbout(const std::vector<Condition>& conditions, const Selector& place) {
  return std::ranges::any_of(conditions,
                             [&](const Condition& one) { return IsSamePlace(one.left, place); });
}

}  // namespace

bool WantedCall::IsAbsent(const Selector& place) const {
  return std::ranges::any_of(fails, [&](const Condition& one) {
    return one.op == Condition::Op::kExists && IsSamePlace(one.left, place);
  });
}

std::vector<WantedCall::Value> WantedCall::Values() const {
  std::vector<Value> values;
  for (const Condition& one : fails) {
    if (one.op != Condition::Op::kExists) {
      values.push_back({one.left, ValueFor(one, false, Json())});
    }
  }
  for (const Condition& one : holds) {
    values.push_back(
        {one.left, one.op == Condition::Op::kExists ? std::nullopt : ValueFor(one, true, Json())});
  }
  return values;
}

// Of each request that would be chosen before it one condition fails: the last that is not about
// what has to stand there anyway.
WantedCall WantedCallOf(const Tool& tool, std::size_t undo) {
  WantedCall wanted{.holds = tool.success_when, .fails = {}};
  const std::vector<const UndoRule*> undos = UndosOf(tool);
  if (undo >= undos.size()) return wanted;
  const std::vector<Condition>& when = undos[undo]->when;
  wanted.holds.insert(wanted.holds.end(), when.begin(), when.end());
  for (std::size_t i = 0; i < undo; ++i) {
    const std::vector<Condition>& earlier = undos[i]->when;
    const auto found = std::find_if(earlier.rbegin(), earlier.rend(), [&](const Condition& one) {
      return !AreAbout(wanted.holds, one.left);
    });
    if (found != earlier.rend()) wanted.fails.push_back(*found);
  }
  return wanted;
}

}  // namespace recourse
