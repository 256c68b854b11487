// JSON written as YAML: bodies of undo requests and of tests.
#pragma once

#include <optional>
#include <string>

#include "policy/language/config_reader.h"
#include "policy/template/template.h"

namespace recourse {

enum class Placeholders { kParse, kLiteral };

// Plain true, false, null and numbers keep their type, everything else is a string. With kParse a
// string may hold placeholders. nullopt: a problem was added.
std::optional<RequestTemplate::Node> ReadJsonNode(const YamlNode& node, const std::string& key,
                                                  Placeholders placeholders, Problems& problems);

// What was read, as JSON in which placeholders stand as they were written.
Json AsWritten(const RequestTemplate::Node& node);

}  // namespace recourse
