// `graphql` and `variables`: requests of our own to a GraphQL server.
#include "policy/graphql/request.h"
#include "policy/language/json_node.h"
#include "policy/language/load_rules.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

using JsonNode = RequestTemplate::Node;

constexpr std::string_view kChangesHelp =
    "a mutation of the same server: graphql: \"mutation($id: ID!) { issueDelete(id: $id) { success "
    "} }\", variables: { id: \"{external_ref}\" }";
constexpr std::string_view kAsksHelp =
    "a query of the same server: graphql: \"query($id: ID!) { issue(id: $id) { id } }\", "
    "variables: { id: \"{body#/input/id}\" }";

// nullopt: a problem was added. No `variables` are none.
std::optional<JsonNode> ReadVariables(MapReader& map) {
  JsonNode none;
  none.kind = Json::Kind::kObject;
  const YamlNode* const node = map.Get("variables");
  if (node == nullptr) return none;
  const std::string key = map.KeyOf("variables");
  if (node->kind != YamlNode::Kind::kMap) {
    map.problems().Error(node->place, key,
                         "a map of the document's variables is accepted here: { id: "
                         "\"{external_ref}\" }");
    return std::nullopt;
  }
  return ReadJsonNode(*node, key, Placeholders::kParse, map.problems());
}

// The document is fixed text: values stand in its variables, where none can be read as more.
JsonNode DocumentNode(const std::string& document) {
  JsonNode node;
  node.kind = Json::Kind::kString;
  node.text.push_back({document, std::nullopt});
  return node;
}

}  // namespace

std::optional<RequestTemplate> ReadGraphqlOwn(MapReader& map, const std::string& endpoint,
                                              Effect effect) {
  const bool changes = effect == Effect::kWrite;
  const YamlNode* const node = map.Need("graphql", changes ? kChangesHelp : kAsksHelp);
  auto variables = ReadVariables(map);
  auto request = ParseRequestLine("POST " + endpoint);
  if (!request) return std::nullopt;  // an endpoint that the loader has refused
  ReadRequestHeaders(map, *request);
  const auto document =
      node == nullptr ? std::nullopt : ReadText(*node, map.KeyOf("graphql"), map.problems());
  if (!document || !variables) return std::nullopt;
  const auto type = changes ? GraphqlOperation::Type::kMutation : GraphqlOperation::Type::kQuery;
  const std::string problem = WhyNoOwnDocument(*document, type, request->calls);
  if (!problem.empty()) {
    map.problems().Error(node->place, map.KeyOf("graphql"), problem);
    return std::nullopt;
  }
  request->source = std::string(NameOf(type)) + ' ' + request->calls + ' ';
  AppendJson(request->source, AsWritten(*variables));
  request->headers.emplace_back("Content-Type", *ParseTemplateText("application/json"));
  request->headers.emplace_back("Accept", *ParseTemplateText("application/json"));
  JsonNode body;
  body.kind = Json::Kind::kObject;
  body.members.emplace_back("query", DocumentNode(*document));
  body.members.emplace_back("variables", std::move(*variables));
  request->json = std::move(body);
  return std::move(*request);
}

}  // namespace recourse
