#include "filters/key/explained_arguments.h"

#include <utility>

#include "filters/key/ambiguity_check.h"
#include "filters/key/key.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

HttpRequest ExplainedRequest(const ExplainedCall& call) {
  HttpRequest request{call.method, call.target, call.headers, call.body};
  const auto first = call.body.find_first_not_of(" \t\r\n");
  const bool looks_like_json =
      first != std::string::npos && (call.body[first] == '{' || call.body[first] == '[');
  if (looks_like_json && FindHeader(call.headers, "Content-Type") == nullptr) {
    request.headers.emplace_back("Content-Type", "application/json");
  }
  return request;
}

// The arguments alone stand for a call by name.
Result<CallBody> ExplainedBody(const HttpRequest& request, const std::string& called) {
  if (called.empty()) return ReadCallBody(request);
  auto arguments = ParseJson(request.body.empty() ? "{}" : request.body);
  if (!arguments) return std::unexpected(arguments.error());
  CallBody body;
  body.form = BodyForm::kJson;
  body.json = std::move(*arguments);
  body.call_name = called;
  body.call_method = request.method == kMutation ? kMutation : kToolsCall;
  return body;
}

}  // namespace

ExplainedArguments ArgumentsOf(const Tool& tool, const ExplainedCall& call, const Pairs& query,
                               const std::string& called) {
  const HttpRequest request = ExplainedRequest(call);
  auto body = ExplainedBody(request, called);
  if (!body) return {CallRefusal(body.error()), std::nullopt, false};
  const auto named = ReadNamedIntent(request.headers, *body);
  if (!named) return {CallRefusal(named.error()), std::nullopt, false};
  if (auto objection = ObjectionTo(tool, request, *body, query, named->intent.has_value())) {
    return {CallRefusal(objection->code, std::move(objection->detail)), std::nullopt, false};
  }
  ExplainedArguments read;
  read.is_form = body->is_form();
  if (body->values() != nullptr) read.values = std::move(body->json);
  return read;
}

}  // namespace recourse
