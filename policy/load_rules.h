// The words of a write tool that are maps of their own.
#pragma once

#include <optional>
#include <string>

#include "policy/config_reader.h"
#include "policy/policy.h"

namespace recourse {

// Where a selector may read from, at a given word of the policy.
enum class Reads { kRequest, kAnswer, kRequestOrAnswer };

// nullopt: a problem was added.
std::optional<Selector> ReadSelector(const LocatedText& text, Reads reads, Problems& problems);
// A condition or a list of them under `name`.
std::vector<Condition> ReadConditions(MapReader& map, std::string_view name, Reads reads);
// A list of statuses under `name`; empty when it is absent.
StatusSet ReadStatuses(MapReader& map, std::string_view name);

std::optional<SettleRule> ReadSettle(MapReader& tool);
// `undo: none` gives nullopt without a problem.
std::optional<UndoRule> ReadUndo(MapReader& tool);
std::optional<ApprovalRule> ReadApproval(MapReader& tool);

}  // namespace recourse
