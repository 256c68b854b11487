#include "policy/suggest/taking_back.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "policy/uri/opposites.h"

namespace recourse {
namespace {

// The last word of a path, or one in the name of a tool.
constexpr std::array<std::string_view, 17> kTakesBack{
    "cancel",  "cancellation", "cancellations", "void",      "voids",   "refund",
    "refunds", "reverse",      "reversal",      "reversals", "revoke",  "undo",
    "release", "withdraw",     "delete",        "remove",    "rollback"};
constexpr std::array<std::string_view, 8> kMayTakeBack{"abort",  "archive", "close",   "deactivate",
                                                       "expire", "return",  "returns", "terminate"};

bool IsOpposite(std::string_view verb, const std::vector<std::string>& words) {
  return std::ranges::any_of(UndosOf(verb), [&](std::string_view opposite) {
    return std::ranges::find(words, opposite) != words.end();
  });
}

}  // namespace

bool IsTakingBackWord(std::string_view word) {
  return std::ranges::find(kTakesBack, word) != kTakesBack.end();
}

TakesBack MayTakeBack(const SeenTool& made, const SeenTool& tool) {
  const auto yes_if = [](bool holds) { return holds ? TakesBack::kYes : TakesBack::kNo; };
  if (tool.segments.empty() || tool.IsRead()) return TakesBack::kNo;
  const std::string& last = tool.segments.back();
  if (tool.method == "DELETE") return yes_if(NamesOne(last));
  if (!tool.IsMcp()) {
    if (IsTakingBackWord(last)) return TakesBack::kYes;
    return std::ranges::find(kMayTakeBack, last) != kMayTakeBack.end() ? TakesBack::kPerhaps
                                                                       : TakesBack::kNo;
  }
  const auto words = WordsOf(tool.segments.front());
  if (std::ranges::any_of(words, IsTakingBackWord)) return TakesBack::kYes;
  return yes_if(std::ranges::any_of(WordsOf(made.segments.front()), [&](const std::string& verb) {
    return IsOpposite(verb, words);
  }));
}

}  // namespace recourse
