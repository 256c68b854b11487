// What the tool of an MCP server declares of its effects.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/json/json.h"

namespace recourse {

// The member of an OpenAPI description and of a tool's `_meta` that has it.
inline constexpr std::string_view kEffectExtension = "x-effect";
inline constexpr std::string_view kEffectMeta = "dev.recourse/effects";

// `holder`: a tool, or an answer to tools/list. nullptr: it declares nothing.
const Json* DeclaredEffects(const Json& holder);

// "sha256:..", which another declaration does not have; empty: there is none.
std::string DeclaredDigest(const Json& tool);

}  // namespace recourse
