// What an API's owner declares of its calls: the words of the policy that say how the API behaves.
// An OpenAPI description or an overlay carries them in `x-effect`, a tool of an MCP server in its
// `_meta`. What only the user of Recourse can say (credentials, traces, limits) is refused.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/effects/declared_digest.h"
#include "policy/language/yaml_reader.h"
#include "policy/model/policy.h"

namespace recourse {

struct DeclaredTool {
  std::string name;                // in the policy
  std::string backend;             // empty: the first one
  std::vector<std::string> calls;  // "POST /orders", "mutation issueCreate", "tools/call act"
  YamlNode facts;                  // its words, without `match`
  Place place;
  std::string effect_class;  // that its owner says it has, or empty
  Place class_place;
};

// Whether the word is one of those that an API's owner may say of a call, or of the whole API.
bool IsToolFact(std::string_view word);
bool IsBackendFact(std::string_view word);

// The value of an `x-effect` or a `dev.recourse/effects` of one call. nullopt: it is no map, which
// was told. Words of the map that are no facts are told too.
std::optional<DeclaredTool> ReadDeclaredTool(const YamlNode& effect, const std::string& key,
                                             Problems& problems);

// The value of one that is about a whole API: { backends: { NAME: { url: .. } } }.
std::vector<YamlNode::Member> ReadDeclaredBackends(const YamlNode& effect, const std::string& key,
                                                   Problems& problems);

// Several calls that have one name are one tool; what they declare must then be the same.
void AddDeclared(std::vector<DeclaredTool>& tools, DeclaredTool tool, Problems& problems);

// Its `match`, of a backend that has this name. Calls by different methods have no common one,
// which is told.
YamlNode MatchOf(const DeclaredTool& tool, const std::string& backend, Problems& problems);

// Whether nothing is said there of the way back, so that somebody has to decide.
bool LacksUndo(const DeclaredTool& tool);

// A policy of these alone. `tools` have their `match`.
YamlNode PolicyTreeOf(std::vector<YamlNode::Member> backends, std::vector<YamlNode::Member> tools);

// The policy of that tree, held to all rules of the language; null: a problem is an error.
std::shared_ptr<const Policy> LoadDeclared(const YamlNode& tree,
                                           const std::vector<DeclaredTool>& tools,
                                           Problems& problems);

// Texts as nodes, for who builds such trees.
YamlNode TextNodeOf(std::string text);
YamlNode MapNodeOf(std::vector<YamlNode::Member> members);
YamlNode::Member MemberOf(std::string name, YamlNode value);

// The same to whoever reads it as JSON.
bool IsSameNode(const YamlNode& a, const YamlNode& b);

}  // namespace recourse
