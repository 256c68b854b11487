#include "proxy/mcp/mcp_judgement.h"

#include <algorithm>
#include <utility>

#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/mcp_codec.h"
#include "policy/model/tool_names.h"
#include "proxy/exchange/observation.h"
#include "proxy/lanes/observed_call.h"
#include "proxy/mcp/mcp_lane.h"
#include "proxy/mcp/mcp_read.h"

namespace recourse {
namespace {

bool Cancels(const McpRequest& message) { return message.method == "notifications/cancelled"; }

// The call that a cancellation is about, also one that is a batch by itself; null: it names none.
Json CanceledCall(std::string_view body) {
  const auto message = ParseJson(body);
  if (!message) return Json();
  const bool is_batch = message->kind == Json::Kind::kArray;
  const Json* const id =
      AtPointer(*message, is_batch ? "/0/params/requestId" : "/params/requestId");
  return id == nullptr ? Json() : *id;
}

}  // namespace

ReadPost ReadMcpPost(const Headers& headers, std::string_view body) {
  using Kind = McpRequest::Kind;
  ReadPost post;
  post.messages = ReadMcpRequest(headers, body);
  if (!post.messages) return post;
  if (post.messages->size() > 1) {
    if (std::ranges::any_of(*post.messages, Cancels)) {
      post.messages = std::unexpected(
          McpRefusal{400, kInvalidRequest, "a batch must not cancel a call: send it alone"});
    }
    return post;
  }
  McpRequest& only = post.messages->front();
  if (Cancels(only)) post.canceled = CanceledCall(body);
  if (only.kind == Kind::kToolCall || only.kind == Kind::kWrite) {
    post.reading = std::make_shared<const CallBody>(TakeReading(only, body));
  }
  return post;
}

McpDecision DecideMcpCall(const ServedRequest& request, const ToolCatalog& tools,
                          const Backend& backend, const std::vector<McpRequest>& messages) {
  std::optional<ToolFacts> facts;
  // What was told to somebody else, nobody else believes.
  if (backend.trust_annotations && !request.caller.is_nobody() &&
      messages.front().kind == McpRequest::Kind::kToolCall) {
    facts = tools.Find(ServerKeyOf(backend), request.caller.name(), messages.front().tool);
  }
  return DecideMcp(request.policy(), backend, messages, facts);
}

std::optional<McpRefusal> RefusalOfCall(const ServedRequest& request, const ToolCatalog& tools,
                                        const McpDecision& decision, const Headers& headers,
                                        const McpRequest& message, const Json& arguments) {
  if (!decision.objection.empty()) {
    return McpRefusal{400, kInvalidRequest, decision.objection, message.id};
  }
  if (decision.effect == Effect::kRead) return std::nullopt;
  std::optional<ToolFacts> facts;
  if (message.era == McpEra::kModern && message.kind == McpRequest::Kind::kToolCall) {
    facts =
        tools.Find(ServerKeyOf(*request.route.match.backend), request.caller.name(), message.tool);
  }
  return RefusalOfFields(headers, message, arguments,
                         facts ? facts->params : std::vector<ParamField>());
}

bool TakeCancel(const ServedRequest& request, CallsInFlight& calls, const Json& id,
                const std::string& session, const Headers& headers) {
  if (id.kind != Json::Kind::kNumber && id.kind != Json::Kind::kString) return false;
  const auto canceled =
      calls.Cancel({NameOfCall(request.caller.name(), *request.route.match.backend, session, id),
                    request.Asker(headers)},
                   request.Now());
  for (const AttemptId unread : canceled.unread) request.services.ledger->MarkUnread(unread);
  // Clients without session share their ids.
  return canceled.is_read && !session.empty();
}

void NoteMcp(ServedRequest& request, const RouteMatch& match, const McpRequest& message) {
  request.record.rpc = McpMethodLabel(message.method);
  request.record.tool = match.tool;
  request.record.effect = match.effect == Effect::kRead ? "read" : "write";
  if (message.kind != McpRequest::Kind::kToolCall) return;
  request.record.called = ShownCallName(message.tool);
  if (match.tool == nullptr) {
    request.worker.unlisted.Count(*match.backend, match.effect, message.method, message.tool);
  }
}

Task<void> JudgeObservedMcp(ServedRequest& request, const ToolCatalog& tools) {
  RequestContext& context = request.observation->context();
  const std::string* const body = request.observation->WholeRequest();
  if (body == nullptr) co_return;
  ReadPost post;
  const auto look = [&] { post = ReadMcpPost(context.request.headers, *body); };
  if (!co_await request.observation->LookAtRequest(look)) co_return;
  auto& messages = post.messages;
  if (!messages) {
    request.observation->Refuse(
        CallRefusal(ErrorCode::kMalformedRequest, messages.error().message));
    co_return;
  }
  const auto decision = DecideMcpCall(request, tools, *context.backend, *messages);
  const McpRequest& first = messages->front();
  if (const auto refusal = RefusalOfCall(request, tools, decision, context.request.headers, first,
                                         post.reading ? post.reading->json : first.arguments)) {
    request.observation->Refuse(CallRefusal(ErrorCode::kMalformedRequest, refusal->message));
    co_return;
  }
  RouteMatch match;
  match.backend = context.backend;
  match.tool = decision.tool;
  match.effect = decision.effect;
  NoteMcp(request, match, first);
  if (request.tap && decision.tool != nullptr) request.tap->call().tool = decision.tool->name;
  if (!ObserveAs(request, decision.tool, decision.effect)) co_return;
  context.reading = std::move(post.reading);
  if (decision.is_denied) {
    request.observation->Refuse(
        CallRefusal(ErrorCode::kDenied, "no tool of the policy matches this call"));
  }
}

}  // namespace recourse
