// Which of a tool's undo rules takes a step back: chosen when the undo request is made of the call
// and its answer, and remembered with it. Pure.
#pragma once

#include <algorithm>
#include <string>

#include "policy/model/policy.h"
#include "policy/template/own_terms.h"
#include "policy/template/template.h"

namespace recourse {

// The first whose conditions hold. Fails where none does, and where one cannot be evaluated: what
// comes after it might be the wrong one.
inline Result<std::size_t> ChooseUndo(const Tool& tool, const CallValues& values) {
  const std::vector<const UndoRule*> undos = UndosOf(tool);
  for (std::size_t i = 0; i < undos.size(); ++i) {
    bool holds = true;
    for (const Condition& condition : undos[i]->when) {
      const std::optional<bool> one = Evaluate(condition, values);
      if (!one) return Malformed("a `when` of the undo cannot be read");
      holds = holds && *one;
    }
    if (holds) return i;
  }
  return Malformed("no `when` of the undo holds");
}

// The request of the one that is chosen, which UndoOf tells again. `state`: what a probe has shown
// of the effect, in place of an answer that nobody has; it chooses, and gives no other values.
inline Result<RenderedRequest> RenderUndo(const Tool& tool, const CallValues& values,
                                          const Json* state = nullptr) {
  CallValues known = values;
  if (known.answer_body == nullptr) known.answer_body = state;
  const auto chosen = ChooseUndo(tool, known);
  if (!chosen) return std::unexpected(chosen.error());
  auto request = Render(UndosOf(tool)[*chosen]->request, values);
  if (request && !tool.other_undos.empty()) {
    request->headers.emplace_back(std::string(kUndoTerm), std::to_string(*chosen));
  }
  return request;
}

// The rule that a request was made by; nullptr: the tool has it no more, or is not known.
inline const UndoRule* UndoOf(const Tool* tool, const RenderedRequest& request) {
  if (tool == nullptr || !tool->undo) return nullptr;
  const std::vector<std::string> terms = TermsOf(request.headers, kUndoTerm);
  if (terms.empty()) return tool->other_undos.empty() ? &*tool->undo : nullptr;
  const std::vector<const UndoRule*> undos = UndosOf(*tool);
  for (std::size_t i = 0; i < undos.size(); ++i) {
    if (std::to_string(i) == terms.front()) return undos[i];
  }
  return nullptr;
}

}  // namespace recourse
