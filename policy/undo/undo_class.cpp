#include "policy/undo/undo_class.h"

#include <algorithm>

namespace recourse {

bool MakesNewId(const Tool& tool) {
  return tool.before && tool.undo && tool.undo->request.method == "POST" &&
         std::ranges::find(tool.methods, "DELETE") != tool.methods.end();
}

UndoClass UndoClassOf(const Tool& tool) {
  if (tool.effect == Effect::kRead) return UndoClass::kRead;
  if (!tool.undo) return UndoClass::kIrreversible;
  if (tool.before) {
    return MakesNewId(tool) ? UndoClass::kExternallyReversible : UndoClass::kReversible;
  }
  const auto deletes = [](const UndoRule* undo) { return undo->request.method == "DELETE"; };
  return std::ranges::all_of(UndosOf(tool), deletes) ? UndoClass::kReversible
                                                     : UndoClass::kExternallyReversible;
}

std::string_view UndoClassName(UndoClass value) {
  switch (value) {
    case UndoClass::kRead:
      return "read";
    case UndoClass::kReversible:
      return "reversible";
    case UndoClass::kExternallyReversible:
      return "externally reversible";
    case UndoClass::kIrreversible:
      break;
  }
  return "irreversible";
}

}  // namespace recourse
