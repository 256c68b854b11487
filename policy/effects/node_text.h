// Trees as text again.
#pragma once

#include <string>

#include "policy/language/yaml_reader.h"

namespace recourse {

// The members of a map as YAML, each line indented by so much: what is short in one line,
// everything else in lines of its own. Reading it gives the same tree, without its places and
// comments.
std::string YamlTextOf(const YamlNode& map, int indent);

// As JSON in lines. Plain numbers, true, false and null stay what they are.
std::string JsonTextOf(const YamlNode& node);

// JSON as such a tree, all of it at one place.
YamlNode NodeOf(const Json& value, const Place& place);

}  // namespace recourse
