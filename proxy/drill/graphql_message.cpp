#include "proxy/drill/graphql_message.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "filters/call/call_values.h"
#include "policy/graphql/decision/graphql_decision.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/json/json_span.h"
#include "proxy/drill/script.h"

namespace recourse {
namespace {

bool IsStepNumber(std::string_view step) {
  return !step.empty() && step.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string SelectionOf(const Json& tree) {
  std::string text;
  for (const Json::Member& member : tree.members) {
    text += member.first + SelectionOf(member.second) + ' ';
  }
  return text.empty() ? text : "{ " + text + "}";
}

// Adds a pointer's steps to a tree of names; elements of lists have none.
void AddSteps(Json& tree, std::string_view pointer) {
  Json* at = &tree;
  while (!pointer.empty()) {
    const auto end = std::min(pointer.find('/', 1), pointer.size());
    const std::string step = MemberName(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    if (IsStepNumber(step)) continue;
    at->kind = Json::Kind::kObject;
    auto found = std::ranges::find(at->members, step, &Json::Member::first);
    if (found == at->members.end()) {
      at->members.emplace_back(step, Json());
      found = at->members.end() - 1;
    }
    at = &found->second;
  }
}

// The variables of a call: what it gives, and what Recourse writes into it.
std::vector<std::string> VariablesOf(const Backend& backend, const Tool& tool,
                                     const Json& arguments) {
  constexpr std::string_view kVariables = "/variables/";
  std::vector<std::string> names;
  for (const Json::Member& member : arguments.members) names.push_back(member.first);
  for (const RequestPlace& place :
       {KeyRuleOf(tool, backend).at, tool.settle ? tool.settle->mark : RequestPlace()}) {
    if (place.where != RequestPlace::Where::kBody || !place.name.starts_with(kVariables)) continue;
    const std::string rest = place.name.substr(kVariables.size());
    const std::string name = MemberName(rest.substr(0, rest.find('/')));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

void WriteMutation(const Backend& backend, const Tool& tool, const Json& arguments,
                   HttpRequest& request) {
  std::string declared, given;
  for (const std::string& name : VariablesOf(backend, tool, arguments)) {
    declared += "$" + name + ": Drill ";
    given += name + ": $" + name + ' ';
  }
  Json tree;
  for (const std::string& place : PlacesOfData(tool)) AddSteps(tree, place);
  const Json* const data = tree.Find("data");
  const Json* const field = data == nullptr ? nullptr : data->Find(tool.mutations.front());
  std::string document = "mutation" + (declared.empty() ? declared : "(" + declared + ")") + " { " +
                         tool.mutations.front() + (given.empty() ? given : "(" + given + ")") +
                         (field == nullptr ? std::string() : SelectionOf(*field)) + " }";
  request.method = "POST";
  request.target = backend.endpoint;
  request.body.clear();
  {
    JsonObject body(request.body);
    body.Text("query", document);
    body.Raw("variables", CanonicalJson(arguments));
  }
  SetHeader(request.headers, "Content-Type", "application/json");
  SetHeader(request.headers, "Accept", "application/json");
}

bool IsGraphqlQuestion(const Backend& backend, const HttpRequest& request) {
  if (!backend.is_graphql() || !IsEndpointMessage(backend, request)) return false;
  const auto calls = ReadGraphql(backend, request.method, request.headers, {}, request.body);
  return calls && std::ranges::all_of(*calls, [](const GraphqlCall& call) {
           return call.type == GraphqlOperation::Type::kQuery;
         });
}

HttpResponse NothingOfGraphql(const SettleRule& rule) {
  std::string_view pointer = rule.happened.name;
  for (std::size_t at = pointer.find('/'); at != std::string_view::npos;) {
    const auto end = std::min(pointer.find('/', at + 1), pointer.size());
    if (IsStepNumber(pointer.substr(at + 1, end - at - 1))) {
      pointer = pointer.substr(0, at);
      break;
    }
    at = end == pointer.size() ? std::string_view::npos : end;
  }
  Json nothing;
  if (pointer.size() != rule.happened.name.size() || rule.search) {
    nothing.kind = Json::Kind::kArray;
  }
  Json body;
  (void)PutAt(body, std::string(pointer), std::move(nothing), true);
  return {200, "", {{"Content-Type", "application/json"}}, CanonicalJson(body)};
}

}  // namespace recourse
