// `match`: which calls are a tool's.
#include <algorithm>

#include "policy/graphql/document.h"
#include "policy/language/load_rules.h"
#include "policy/language/policy_builder.h"
#include "policy/model/endpoint.h"
#include "policy/model/route_tree.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

constexpr std::string_view kMatchHelp =
    "accepted: \"METHOD backend /path\" with methods such as GET, POST|PUT or *, and a path such "
    "as /orders, /orders/{id} or /files/**; or \"tools/call backend NAME\" of an MCP server, with "
    "a name such as create_order or read_*; or \"mutation backend FIELD\" of a GraphQL server";

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool IsMethod(std::string_view method) {
  return method == "*" || (!method.empty() && method.size() <= limits::kMethodBytesMax &&
                           std::all_of(method.begin(), method.end(),
                                       [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; }));
}

// post, tool/call, Mutation.
std::string MatchDoubt(const std::string& word) {
  const std::string doubt = DidYouMean(word, {std::string(kToolsCall), std::string(kMutation)});
  return doubt.empty() ? MethodDoubt(word) : doubt;
}

struct Route {
  // None: `pattern` is the name of an MCP tool, or a glob, or a field of a mutation.
  std::vector<std::string> methods;
  std::size_t backend = 0;
  std::string pattern;
};

// Reads one entry of `match`; each step that fails says why.
class RouteReader {
 public:
  RouteReader(const LocatedText& match, PolicyBuilder& draft) : match_(match), draft_(draft) {}

  std::optional<Route> Read() {
    auto words = Split(match_.text, ' ');
    std::erase(words, std::string());
    if (words.size() != 3) return Refuse(std::string(kMatchHelp));
    Route route;
    if (RefuseNearWord(words[0], words[1], words[2])) return std::nullopt;
    const bool is_mcp = words[0] == kToolsCall, is_mutation = words[0] == kMutation;
    const bool is_named = is_mcp || is_mutation;
    if (!is_named && !ReadMethods(words[0], route)) return std::nullopt;
    if (!ReadBackend(words[1], route)) return std::nullopt;
    route.pattern = words[2];
    const bool is_good = is_mcp        ? CheckName(route)
                         : is_mutation ? CheckField(route)
                                       : CheckPath(route);
    if (!is_good) return std::nullopt;
    return route;
  }

 private:
  std::nullopt_t Refuse(std::string message) {
    draft_.problems.Error(match_.place, match_.key, std::move(message));
    return std::nullopt;
  }

  // Words of the protocols that no tool is matched by.
  bool RefuseNearWord(const std::string& word, const std::string& backend,
                      const std::string& field) {
    const std::string lower = ToLower(word);
    if (lower == "query" && word != "QUERY") {
      Refuse(
          "queries of a GraphQL server are reads and pass, so no tool lists them; a mutation "
          "that changes nothing is `match: mutation " +
          backend + ' ' + field + "` with `effect: read`");
      return true;
    }
    if (lower == "subscription") {
      Refuse("subscriptions of a GraphQL server pass, so no tool lists them; leave this tool out");
      return true;
    }
    return false;
  }

  bool ReadMethods(const std::string& word, Route& route) {
    route.methods = Split(word, '|');
    auto& methods = route.methods;
    std::sort(methods.begin(), methods.end());
    if (std::all_of(methods.begin(), methods.end(), IsMethod) &&
        (methods.size() == 1 || methods.front() != "*") &&
        std::adjacent_find(methods.begin(), methods.end()) == methods.end()) {
      for (const std::string& method : methods) {
        if (const std::string doubt = MethodDoubt(method); !doubt.empty()) {
          draft_.problems.Warn(match_.place, match_.key, method + " is no usual method" + doubt);
        }
      }
      return true;
    }
    Refuse("'" + word + "' is no list of methods" + MatchDoubt(word) +
           "; accepted: GET, POST|PUT, or * for any; tools/call for tools "
           "of an MCP server, mutation for fields of a GraphQL server");
    return false;
  }

  bool ReadBackend(const std::string& word, Route& route) {
    const auto backend = draft_.backends.find(word);
    if (backend == draft_.backends.end()) {
      const auto names = draft_.BackendNames();
      Refuse("no backend is called '" + word + "'" + DidYouMean(word, names) +
             (names.empty() ? "" : "; defined: " + JoinWords(names)));
      return false;
    }
    route.backend = backend->second;
    return true;
  }

  // Then the error about that word is all that need be said.
  bool IsProtocolMisspelled(const Backend& backend) const {
    return draft_.problems.IsMisspelled("backends." + backend.name + ".protocol");
  }

  bool CheckName(const Route& route) {
    const Backend& backend = draft_.policy.backends[route.backend];
    if (!backend.is_mcp()) {
      if (IsProtocolMisspelled(backend)) return false;
      Refuse("backend " + backend.name +
             " is no MCP server; give it `protocol: mcp`, or match METHOD " + backend.name +
             " /path");
      return false;
    }
    const auto problem = CheckMcpName(route.pattern);
    if (!problem.empty()) Refuse(route.pattern + ": " + std::string(problem));
    return problem.empty();
  }

  bool CheckField(const Route& route) {
    const Backend& backend = draft_.policy.backends[route.backend];
    if (!backend.is_graphql()) {
      if (IsProtocolMisspelled(backend)) return false;
      Refuse("backend " + backend.name +
             " is no GraphQL server; give it `protocol: graphql`, or match METHOD " + backend.name +
             " /path");
      return false;
    }
    const bool is_good = IsGraphqlName(route.pattern);
    if (!is_good) Refuse(route.pattern + " is no name of a field of a mutation: issueCreate");
    return is_good;
  }

  bool CheckPath(const Route& route) {
    if (const auto problem = CheckPattern(route.pattern); !problem.empty()) {
      Refuse("path " + route.pattern + ": " + std::string(problem));
      return false;
    }
    const Backend& backend = draft_.policy.backends[route.backend];
    for (const Backend& other : draft_.policy.backends) {
      const bool is_there =
          other.has_endpoint() && IsSameServer(other, backend) &&
          EndpointPathOf(other, backend.base_path + route.pattern) != EndpointPath::kOther;
      if (!is_there) continue;
      Refuse(route.pattern + " is the endpoint of " + (other.is_mcp() ? "MCP" : "GraphQL") +
             " server " + other.name +
             ", where the body alone says what a call is; match its tools by their names: " +
             std::string(other.is_mcp() ? kToolsCall : kMutation) + ' ' + other.name + " NAME");
      return false;
    }
    return true;
  }

  const LocatedText& match_;
  PolicyBuilder& draft_;
};

}  // namespace

void ReadMatch(MapReader& map, PolicyBuilder& draft, Tool& tool) {
  map.Need("match", kMatchHelp);
  bool is_first = true;
  for (const LocatedText& match : map.Texts("match")) {
    auto route = RouteReader(match, draft).Read();
    if (!route) continue;
    const bool is_named = route->methods.empty();
    if (is_first) {
      tool.backend = route->backend;
      tool.methods = route->methods;
    } else if (route->backend != tool.backend || route->methods != tool.methods) {
      draft.problems.Error(match.place, match.key,
                           is_named || tool.methods.empty()
                               ? "all matches of a tool have one backend, and paths and names "
                                 "do not go together; make another tool of it"
                               : "all matches of a tool have one backend and the same methods; "
                                 "make another tool of it");
      continue;
    }
    is_first = false;
    const bool is_mcp = draft.policy.backends[tool.backend].is_mcp();
    auto& into = !is_named ? tool.patterns : is_mcp ? tool.mcp_names : tool.mutations;
    into.push_back(std::move(route->pattern));
  }
}

}  // namespace recourse
