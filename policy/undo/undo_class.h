// How far what a tool does can be taken back, by what the policy says of it.
#pragma once

#include <string_view>

#include "policy/model/policy.h"

namespace recourse {

UndoClass UndoClassOf(const Tool& tool);
std::string_view UndoClassName(UndoClass value);

// What was deleted is made again from what was kept, and has another name.
bool MakesNewId(const Tool& tool);

}  // namespace recourse
