// Which tools' calls an undo request may equal, where its body says what it takes back.
#include <algorithm>

#include "policy/language/policy_builder.h"
#include "policy/model/route_tree.h"
#include "policy/model/tool_names.h"
#include "policy/undo/undo_names.h"
#include "policy/uri/path.h"

namespace recourse {
namespace {

bool MayBe(const RequestTemplate::Text& text, const RoutePattern::Segment& segment) {
  const bool has_value = std::ranges::any_of(
      text, [](const RequestTemplate::Piece& piece) { return piece.selector.has_value(); });
  if (segment.is_capture || has_value) return true;
  std::string literal;
  for (const auto& piece : text) literal += piece.literal;
  return FoldPath(literal) == FoldPath(segment.text);
}

bool MayMatch(const RequestTemplate& request, const std::string& pattern) {
  const RoutePattern route = ParsePattern(pattern);
  const std::size_t count = route.segments.size();
  const std::size_t has = request.path.size();
  if (has < count || (has > count && !route.has_rest)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!MayBe(request.path[i], route.segments[i])) return false;
  }
  return true;
}

bool MayMatch(const RequestTemplate& request, const Tool& tool) {
  if (!request.calls.empty()) {
    const auto names = [&](const std::string& glob) { return MatchesMcpGlob(glob, request.calls); };
    return std::ranges::any_of(tool.mcp_names, names) ||
           std::ranges::find(tool.mutations, request.calls) != tool.mutations.end();
  }
  const bool has_method = std::ranges::any_of(tool.methods, [&](const std::string& method) {
    return method == "*" || method == request.method;
  });
  return has_method && std::ranges::any_of(tool.patterns, [&](const std::string& pattern) {
           return MayMatch(request, pattern);
         });
}

void Add(const std::vector<std::string>& names, UndoesByBody& undoes) {
  undoes.may_be = true;
  for (const std::string& name : names) {
    const bool is_there = std::ranges::find(undoes.names, name) != undoes.names.end();
    if (!is_there) undoes.names.push_back(name);
  }
}

}  // namespace

void NoteUndoes(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  if (tool.backend >= draft.policy.backends.size()) return;
  for (const UndoRule* const rule : UndosOf(tool)) {
    if (NamesEffectInTarget(tool, *rule)) continue;
    const std::vector<std::string> names = MembersThatName(tool, *rule);
    Add(names, draft.policy.backends[tool.backend].undoes);
    for (Tool& other : draft.policy.tools) {
      const bool may_be = other.backend == tool.backend && other.effect != Effect::kRead;
      if (may_be && MayMatch(rule->request, other)) Add(names, other.undoes);
    }
  }
}

}  // namespace recourse
