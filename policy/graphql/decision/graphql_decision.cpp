#include "policy/graphql/decision/graphql_decision.h"

#include <algorithm>

#include "policy/model/route_table.h"

namespace recourse {
namespace {

constexpr std::string_view kData = "/data/";

const Tool* ToolOfField(const Policy& policy, const Backend& backend,
                        const GraphqlRootField& field) {
  return policy.routes->FindCalledTool(backend, field.name);
}

std::string WhyNotReadable(const Tool& tool, const GraphqlRootField& field) {
  for (const std::string& place : PlacesOfData(tool)) {
    std::string_view rest = std::string_view(place).substr(kData.size());
    const auto end = std::min(rest.find('/'), rest.size());
    const bool is_selected =
        rest.substr(0, end) == field.shape.key && Selects(field.shape, rest.substr(end));
    if (is_selected) continue;
    return "the policy reads " + place +
           " of the answer, which the document does not select: select it, under that name and "
           "without @skip or @include";
  }
  return {};
}

std::string WhyTooMany(const Policy& policy, const Backend& backend,
                       const std::vector<GraphqlRootField>& fields) {
  std::string why = "a mutation with a write in it has one field, and this one has";
  for (const GraphqlRootField& field : fields) {
    const Tool* const tool = ToolOfField(policy, backend, field);
    why += (&field == &fields.front() ? " " : ", ") + field.name +
           (tool == nullptr ? " (no tool)" : " (tool " + tool->name + ")");
  }
  return why + ": send each alone";
}

}  // namespace

std::vector<std::string> PlacesOfData(const Tool& tool) {
  std::vector<std::string> places;
  const auto add = [&](const Selector& place) {
    const bool is_data =
        place.source == Selector::Source::kAnswerBody && place.name.starts_with(kData);
    if (is_data) places.push_back(place.name);
  };
  if (tool.external_ref) add(*tool.external_ref);
  for (const UndoRule* const undo : UndosOf(tool)) {
    for (const Selector& place : SelectorsOf(undo->request)) add(place);
    for (const Condition& condition : undo->when) add(condition.left);
  }
  for (const auto* conditions : {&tool.success_when, &tool.failed_when, &tool.happened_if}) {
    for (const Condition& condition : *conditions) add(condition.left);
  }
  return places;
}

GraphqlDecision DecideGraphql(const Policy& policy, const Backend& backend,
                              const std::vector<GraphqlCall>& calls) {
  using Type = GraphqlOperation::Type;
  GraphqlDecision decision;
  decision.unlisted = policy.unlisted_writes;
  const bool is_read = std::ranges::all_of(
      calls, [](const GraphqlCall& call) { return call.type != Type::kMutation; });
  if (is_read) {
    decision.effect = Effect::kRead;
    return decision;
  }
  const std::vector<GraphqlRootField>& fields = calls.front().fields;
  const auto refuse = [&](std::string why) {
    decision.refusal = CallRefusal(ErrorCode::kMalformedRequest, std::move(why));
  };
  if (fields.empty()) {
    refuse("the mutation has no field");
    return decision;
  }
  const bool all_read = std::ranges::all_of(fields, [&](const GraphqlRootField& field) {
    const Tool* const tool = ToolOfField(policy, backend, field);
    return tool != nullptr && tool->effect == Effect::kRead;
  });
  decision.field = fields.front().name;
  decision.tool = ToolOfField(policy, backend, fields.front());
  if (all_read) {
    decision.effect = Effect::kRead;
  } else if (fields.size() > 1) {
    refuse(WhyTooMany(policy, backend, fields));
  } else if (decision.tool == nullptr && decision.unlisted == UnlistedRule::kDeny) {
    decision.refusal =
        CallRefusal(ErrorCode::kDenied, "no tool of the policy is mutation " + backend.name + ' ' +
                                            decision.field + ", and unlisted calls are denied");
  } else if (decision.tool != nullptr) {
    std::string why = WhyNotReadable(*decision.tool, fields.front());
    if (!why.empty()) refuse(std::move(why));
  }
  return decision;
}

std::expected<std::vector<GraphqlCall>, CallRefusal> ReadGraphql(const Backend& backend,
                                                                 std::string_view method,
                                                                 const Headers& headers,
                                                                 std::string_view query,
                                                                 std::string_view body) {
  auto calls = method == "POST" ? ReadGraphqlPost(headers, query, body, backend.persisted)
                                : ReadGraphqlGet(query, backend.persisted);
  if (!calls) {
    return std::unexpected(CallRefusal(calls.error().code, std::move(calls.error().detail)));
  }
  return std::move(*calls);
}

}  // namespace recourse
