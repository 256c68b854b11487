// How calls by name are told, of a server's tool or of a mutation's field; names of an MCP server's
// tools, and the globs that stand for several. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace recourse {

// The method of a tool's call, in messages, in `match`, in tests and on the command line.
inline constexpr std::string_view kToolsCall = "tools/call";
// The same of a mutation, whose name is that of its field.
inline constexpr std::string_view kMutation = "mutation";

constexpr bool IsCallByName(std::string_view method) {
  return method == kToolsCall || method == kMutation;
}

// The name that a client has written, for people and models to read: at most as long as one may be,
// and what no name has is a '?'.
std::string ShownCallName(std::string_view name);

// Why `text` is neither a name nor a glob that a policy can have, as a static reason that says what
// is accepted; empty when it is fine. Names are case-sensitive.
std::string_view CheckMcpName(std::string_view text);

bool IsMcpGlob(std::string_view text);

// `*` stands for any characters, also none. Both are views; nothing is allocated.
bool MatchesMcpGlob(std::string_view glob, std::string_view name);

// Of several globs the one with the most literal characters counts.
std::size_t McpLiterals(std::string_view text);

// A name, or a glob of them, as servers and clients of other tastes have it: in lower case, up to a
// NUL, with one '_' for each character that models' APIs allow in place of others, without blanks
// around it and without what cannot be seen.
std::string LooseMcpName(std::string_view name);
// Without the namespace that models put before a loose name: "functions", or "mcp__server".
std::string_view WithoutMcpNamespace(std::string_view loose);

// Whether some name matches both. Either may be a name.
bool McpNamesOverlap(std::string_view a, std::string_view b);

}  // namespace recourse
