#include "filters/graphql/graphql_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "policy/graphql/answer.h"
#include "policy/graphql/decision/graphql_decision.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

class OfGraphql final : public Codec {
 public:
  Result<CallBody> Read(const Backend& backend, const HttpRequest& request) const override;
  bool PlacesAreInBody() const override { return true; }
  std::string ObjectionToEdit(const Policy& policy, const Backend& backend, std::string_view tool,
                              const HttpRequest& request, const std::string& body) const override;
  std::optional<Verdict> Judge(const Tool& tool, const Answer& answer,
                               const CallValues& values) const override;
  bool JudgesByBody() const override { return true; }
  std::string LostAnswer(std::string_view external_ref,
                         std::string_view settled_by) const override {
    return GraphqlOfLostAnswer(external_ref, settled_by);
  }
};

Result<CallBody> OfGraphql::Read(const Backend& backend, const HttpRequest& request) const {
  const auto mark = std::min(request.target.find('?'), request.target.size());
  auto calls = ReadGraphql(backend, request.method, request.headers,
                           std::string_view(request.target).substr(mark), request.body);
  if (!calls || calls->size() != 1 || calls->front().fields.size() != 1) {
    return Malformed("the body is not one mutation of GraphQL with one field");
  }
  GraphqlRootField& field = calls->front().fields.front();
  CallBody reading;
  reading.form = BodyForm::kJson;
  reading.json = std::move(field.arguments);
  reading.call_method = kMutation;
  reading.call_name = std::move(field.name);
  reading.selection = field.shape.key + field.selection;
  return reading;
}

// Another document may be written for it, if that calls the same field.
std::string OfGraphql::ObjectionToEdit(const Policy& policy, const Backend& backend,
                                       std::string_view tool, const HttpRequest& request,
                                       const std::string& body) const {
  const auto calls = ReadGraphql(backend, request.method, request.headers, "", body);
  if (!calls) return "the new body cannot be read: " + calls.error().detail();
  const GraphqlDecision decision = DecideGraphql(policy, backend, *calls);
  if (decision.refusal) return decision.refusal->detail();
  const bool is_same = decision.tool != nullptr && decision.tool->name == tool;
  return is_same ? std::string() : "of a mutation the field may not be changed";
}

// A GraphQL server says with a 200 that a mutation failed, too. nullopt: the policy's conditions
// tell, or its field has a value and nothing is said against it.
std::optional<Verdict> OfGraphql::Judge(const Tool& tool, const Answer& answer,
                                        const CallValues& values) const {
  const int status = answer.response.status;
  if (!IsSuccess(status) || tool.not_executed.Contains(status)) return std::nullopt;
  const GraphqlSays says = ReadGraphqlAnswer(values.answer_body);
  if (says == GraphqlSays::kData || AnyHolds(tool.failed_when, values)) return std::nullopt;
  const bool is_confirmed =
      !tool.success_when.empty() && JudgeSuccess(tool, values) == Confirmed::kYes;
  if (is_confirmed) return std::nullopt;
  const std::string words = GraphqlErrorText(values.answer_body);
  const std::string said = words.empty() ? std::string() : ": " + words;
  if (says == GraphqlSays::kErrors && tool.on_error == OnError::kNotExecuted) {
    Verdict verdict;
    verdict.http_status = status;
    verdict.phase = Phase::kRejected;
    verdict.detail = fmt::format("the server refused the mutation{}", said);
    ReplaceCutAnswer(answer, verdict);
    return verdict;
  }
  return UnclearAnswer(
      answer, Cause::kAnswer,
      says == GraphqlSays::kNothing
          ? fmt::format("the backend answered {} without a value of the mutation's field", status)
          : fmt::format("the backend answered {} with an error, which does not tell whether it "
                        "acted{}",
                        status, said));
}

}  // namespace

const Codec& GraphqlCodec() {
  static const OfGraphql codec;
  return codec;
}

}  // namespace recourse
