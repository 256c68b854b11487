// How far what a tool does can be taken back, by what the policy says of it.
#pragma once

#include <cstdint>
#include <string_view>

#include "policy/model/policy.h"

namespace recourse {

enum class UndoClass : std::uint8_t {
  kRead,
  kReversible,            // what it changed is put back, or what it made is gone
  kExternallyReversible,  // taken back by a further effect: a refund, a new id, something closed
  kIrreversible,
};

UndoClass UndoClassOf(const Tool& tool);
std::string_view UndoClassName(UndoClass value);

// What was deleted is made again from what was kept, and has another name.
bool MakesNewId(const Tool& tool);

}  // namespace recourse
