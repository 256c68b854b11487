#include "policy/graphql/document.h"
#include "policy/language/json_node.h"
#include "policy/language/policy_builder.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

constexpr std::string_view kCallHelp =
    "accepted: \"METHOD backend /path?query\", \"tools/call backend NAME\" of an MCP server, or "
    "\"mutation backend FIELD\" of a GraphQL server";

void CheckToolsCall(MapReader& map, const Backend& backend, const PolicyTest& test) {
  const auto error = [&](std::string_view word, std::string message) {
    map.problems().Error(map.PlaceOf(word), map.KeyOf(word), std::move(message));
  };
  if (!backend.is_mcp()) {
    error("call", "backend " + backend.name + " is no MCP server; accepted: METHOD " +
                      backend.name + " /path");
  }
  const auto problem = CheckMcpName(test.target);
  if (!problem.empty() || IsMcpGlob(test.target)) {
    error("call",
          problem.empty() ? "one tool is called; a glob names several" : std::string(problem));
  }
  const YamlNode* body = map.node().Find("body");
  if (body != nullptr && body->kind != YamlNode::Kind::kMap) {
    error("body", "a map of the tool's arguments is accepted here");
  }
}

// What is judged as a mutation of that field, with `body` for its arguments.
void CheckMutationCall(MapReader& map, const Backend& backend, const PolicyTest& test) {
  const bool is_good = backend.is_graphql() && IsGraphqlName(test.target);
  if (!is_good) {
    map.problems().Error(map.PlaceOf("call"), map.KeyOf("call"),
                         backend.is_graphql()
                             ? test.target + " is no name of a field"
                             : "backend " + backend.name + " is no GraphQL server");
  }
}

void ReadCall(MapReader& map, PolicyBuilder& draft, PolicyTest& test) {
  const YamlNode* node = map.Need("call", kCallHelp);
  if (node == nullptr) return;
  const auto text = ReadText(*node, map.KeyOf("call"), map.problems());
  if (!text) return;
  const auto first = text->find(' ');
  const auto second = first == std::string::npos ? first : text->find(' ', first + 1);
  if (second == std::string::npos || second + 1 >= text->size()) {
    map.problems().Error(node->place, map.KeyOf("call"), std::string(kCallHelp));
    return;
  }
  test.method = text->substr(0, first);
  test.backend = text->substr(first + 1, second - first - 1);
  test.target = text->substr(second + 1);
  const auto backend = draft.backends.find(test.backend);
  if (backend == draft.backends.end()) {
    map.problems().Error(node->place, map.KeyOf("call"),
                         "no backend is called '" + test.backend + "'" +
                             DidYouMean(test.backend, draft.BackendNames()));
  } else if (test.method == "query" || test.method == "subscription") {
    map.problems().Error(node->place, map.KeyOf("call"),
                         "queries and subscriptions of a GraphQL server pass and are no tool's; a "
                         "test calls mutations: mutation " +
                             test.backend + " FIELD");
  } else if (test.method == kToolsCall) {
    CheckToolsCall(map, draft.policy.backends[backend->second], test);
  } else if (test.method == kMutation) {
    CheckMutationCall(map, draft.policy.backends[backend->second], test);
  }
}

// A map or list is JSON; a text is the body as it is, a form for example.
void ReadBody(MapReader& map, PolicyTest& test) {
  const YamlNode* node = map.Get("body");
  if (node == nullptr) return;
  if (node->kind == YamlNode::Kind::kScalar) {
    test.body = node->text;
    return;
  }
  const auto body = ReadJsonNode(*node, map.KeyOf("body"), Placeholders::kLiteral, map.problems());
  if (body) test.body = CanonicalJson(AsWritten(*body));
}

void ReadHeaders(MapReader& map, PolicyTest& test) {
  const YamlNode* node = map.Get("headers");
  if (node == nullptr) return;
  MapReader headers(*node, map.KeyOf("headers"), map.problems());
  for (const auto& member : node->members) {
    auto value = ReadText(member.value, headers.KeyOf(member.name), map.problems());
    if (value) test.headers.emplace_back(member.name, std::move(*value));
  }
}

void ReadExpect(MapReader& map, PolicyBuilder& draft, PolicyTest& test) {
  static constexpr std::pair<std::string_view, std::string_view> kEffects[] = {{"read", "read"},
                                                                               {"write", "write"}};
  const YamlNode* node = map.Need("expect", "accepted: { tool, effect, approval, refused, key }");
  if (node == nullptr) return;
  MapReader expect(*node, map.KeyOf("expect"), map.problems());
  test.tool = expect.Text("tool");
  if (test.tool && *test.tool != "unlisted" && !draft.tools.contains(*test.tool)) {
    map.problems().Error(node->Find("tool")->place, expect.KeyOf("tool"),
                         "no tool is called '" + *test.tool + "'" +
                             DidYouMean(*test.tool, draft.ToolNames()) +
                             "; 'unlisted' stands for none");
  }
  if (const auto effect = expect.OneOf("effect", kEffects)) test.effect = std::string(*effect);
  test.approval = expect.Bool("approval");
  test.refused = expect.Text("refused");
  for (LocatedText& part : expect.Texts("key")) test.key_parts.push_back(std::move(part.text));
  expect.Finish();
  if (node->kind == YamlNode::Kind::kMap && node->members.empty()) {
    map.problems().Error(node->place, expect.key(), "expects nothing");
  }
}

}  // namespace

void LoadTests(const YamlNode& section, PolicyBuilder& draft) {
  if (section.kind != YamlNode::Kind::kList) {
    draft.problems.Error(section.place, "tests",
                         "a list is accepted here: - { call: \"GET orders /orders/7\", expect: { "
                         "effect: read } }");
    return;
  }
  for (std::size_t i = 0; i < section.items.size(); ++i) {
    MapReader map(section.items[i], "tests[" + std::to_string(i) + ']', draft.problems);
    PolicyTest test;
    test.line = section.items[i].place.line;
    ReadCall(map, draft, test);
    ReadBody(map, test);
    ReadHeaders(map, test);
    ReadExpect(map, draft, test);
    map.Finish();
    draft.policy.tests.push_back(std::move(test));
  }
}

}  // namespace recourse
