// What the policy makes of one reading of a path, and whether two readings are treated alike. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "policy/model/route_table.h"

namespace recourse {

// kByEffect: two reads that pass are alike whatever lists them. kByTool: only of the same tool; dot
// segments are no part of ordinary paths, and where they lead matters.
enum class Alike : std::uint8_t { kByEffect, kByTool };
// Whether the call is passed on and remembered in the same way whichever of the two matches it is.
// Writes are of the same tool with the same values where the policy reads them, or of none.
bool IsTreatedAlike(const RouteMatch& one, const RouteMatch& other, Alike how);

// "tool orders.create", "an unlisted read", "a denied write".
std::string TreatmentInWords(const RouteMatch& match);
std::string TreatmentInWords(const Tool& tool);

}  // namespace recourse
