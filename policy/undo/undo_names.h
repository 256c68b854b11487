// By what an undo request says which effect it takes back. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/model/policy.h"
#include "policy/template/template.h"

namespace recourse {

// Whether the request names the one effect that it takes back, by what only its answer or the key
// of its call tells. Another one may have been made by a call with equal arguments.
bool NamesEffect(const Tool& tool, const UndoRule& rule);

// Whether what stands at the pointer is by its name that of a thing, and no amount or state of it.
bool IsNaming(std::string_view pointer);

// Whether its path or query does.
bool NamesEffectInTarget(const Tool& tool, const UndoRule& rule);

// The members of its body, or fields of its form, that do; the last parts of their pointers.
std::vector<std::string> MembersThatName(const Tool& tool, const UndoRule& rule);

// What stands there in a request that was made by the rule: scalars as text.
std::vector<std::string> TextsThatName(const Tool& tool, const UndoRule& rule,
                                       const RenderedRequest& request);

}  // namespace recourse
