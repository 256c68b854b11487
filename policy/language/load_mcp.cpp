// `call` and `arguments`: requests of our own that are calls of an MCP server's tools.
#include "policy/language/json_node.h"
#include "policy/language/load_rules.h"
#include "policy/language/policy_builder.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

using Node = RequestTemplate::Node;

Node TextNode(std::string text) {
  Node node;
  node.kind = Json::Kind::kString;
  node.text.push_back({std::move(text), std::nullopt});
  return node;
}

Node NumberNode(std::string digits) {
  Node node;
  node.kind = node.scalar.kind = Json::Kind::kNumber;
  node.scalar.text = std::move(digits);
  return node;
}

Node ObjectNode(std::vector<std::pair<std::string, Node>> members) {
  Node node;
  node.kind = Json::Kind::kObject;
  node.members = std::move(members);
  return node;
}

// The message that agents send too. Its id means something on one connection only.
Node CallMessage(const std::string& tool, Node arguments) {
  return ObjectNode(
      {{"jsonrpc", TextNode("2.0")},
       {"id", NumberNode("1")},
       {"method", TextNode(std::string(kToolsCall))},
       {"params", ObjectNode({{"name", TextNode(tool)}, {"arguments", std::move(arguments)}})}});
}

// nullopt: a problem was added.
std::optional<Node> ReadArguments(MapReader& map) {
  const YamlNode* node = map.Get("arguments");
  if (node == nullptr) return ObjectNode({});
  const std::string key = map.KeyOf("arguments");
  if (node->kind != YamlNode::Kind::kMap) {
    map.problems().Error(node->place, key,
                         "a map of the tool's arguments is accepted here: { id: "
                         "\"{external_ref}\" }");
    return std::nullopt;
  }
  return ReadJsonNode(*node, key, Placeholders::kParse, map.problems());
}

// Those that the protocol itself needs are set when the call is sent.
void RefuseFieldsOfTheProtocol(MapReader& map, const RequestTemplate& request) {
  for (const auto& [name, value] : request.headers) {
    const bool is_protocol = ToLower(name).starts_with("mcp-") ||
                             EqualsIgnoreCase(name, "Accept") ||
                             EqualsIgnoreCase(name, "Content-Type");
    if (!is_protocol) continue;
    map.problems().Error(map.PlaceOf("headers"), map.KeyOf("headers"),
                         name + " of an MCP call is set by Recourse");
  }
}

}  // namespace

std::optional<RequestTemplate> ReadMcpCall(MapReader& map, const std::string& endpoint) {
  const auto tool = map.Has("call") ? map.Text("call") : std::nullopt;
  if (!map.Has("call")) {
    map.Need("call",
             "the name of a tool of the same MCP server: { call: cancel_order, arguments: "
             "{ id: \"{external_ref}\" } }");
  }
  auto arguments = ReadArguments(map);
  auto request = ParseRequestLine("POST " + endpoint);
  if (!request) return std::nullopt;  // an endpoint that the loader has refused
  ReadRequestHeaders(map, *request);
  RefuseFieldsOfTheProtocol(map, *request);
  if (!tool || !arguments) return std::nullopt;
  const auto problem = CheckMcpName(*tool);
  if (!problem.empty() || IsMcpGlob(*tool)) {
    map.problems().Error(
        map.PlaceOf("call"), map.KeyOf("call"),
        problem.empty() ? "one tool is called; a glob names several" : std::string(problem));
    return std::nullopt;
  }
  request->calls = *tool;
  request->source = std::string(kToolsCall) + ' ' + *tool + ' ';
  AppendJson(request->source, AsWritten(*arguments));
  request->headers.emplace_back("Content-Type", *ParseTemplateText("application/json"));
  request->headers.emplace_back("Accept",
                                *ParseTemplateText("application/json, text/event-stream"));
  request->json = CallMessage(*tool, std::move(*arguments));
  return std::move(*request);
}

}  // namespace recourse
