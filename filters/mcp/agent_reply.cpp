#include "filters/mcp/agent_reply.h"

#include "filters/ledger/model/row_id.h"
#include "filters/mcp/era_form.h"
#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/mcp_message.h"
#include "filters/mcp/mcp_task.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kEvents = "text/event-stream";

// A problem, whichever of our forms it has.
struct Problem {
  std::string words, outcome, event;
  bool retryable = false;
};

Problem ReadProblem(std::string_view body) {
  Problem problem;
  const auto json = ParseJson(body);
  if (!json) return problem;
  const Json* const error = json->Find("error");
  problem.words = ScalarText(error == nullptr ? *json : *error, "message");
  problem.outcome = ScalarText(*json, "outcome");
  problem.event = ScalarText(*json, "event");
  const Json* const retryable = json->Find("retryable");
  problem.retryable = retryable == nullptr || retryable->kind == Json::Kind::kTrue;
  return problem;
}

std::string ResultMessage(const McpRequest& request, auto write) {
  return McpMessage(request.id, [&](JsonObject& json) {
    JsonObject result = json.Object("result");
    write(result);
  });
}

void AppendMeta(JsonObject& meta, const Problem& problem) {
  if (!problem.outcome.empty()) meta.Text("dev.recourse/outcome", problem.outcome);
  if (const auto event = ParseRowId(problem.event)) {
    meta.Raw("dev.recourse/event", RowIdJson(*event));
  }
  meta.Bool("dev.recourse/retryable", problem.retryable);
}

void WriteText(JsonObject& result, std::string_view text) {
  JsonList content = result.List("content");
  JsonObject item = content.Object();
  item.Text("type", "text");
  item.Text("text", text);
}

// A tool's own words are the only ones that every framework lets its model read.
std::string ToolText(const McpRequest& request, const Problem& problem, bool is_error) {
  return ResultMessage(request, [&](JsonObject& result) {
    if (request.era == McpEra::kModern) result.Text("resultType", "complete");
    WriteText(result, problem.words);
    result.Bool("isError", is_error);
    JsonObject meta = result.Object("_meta");
    AppendMeta(meta, problem);
  });
}

std::string ComeBack(const McpRequest& request, const Problem& problem, std::string_view state) {
  return ResultMessage(request, [&](JsonObject& result) {
    result.Text("resultType", "input_required");
    result.Text("requestState", state);
    JsonObject meta = result.Object("_meta");
    AppendMeta(meta, problem);
  });
}

std::string OfProblem(const McpRequest& request, const ClientFacts& side,
                      const WriteAnswer& answer) {
  const Problem problem = ReadProblem(answer.response.body);
  // To who waits for a task, a result in its place is unreadable.
  if (request.kind != McpRequest::Kind::kToolCall || request.wants_task) {
    return AgentError(request.id, FactsOf(*answer.error).http_status, problem.words,
                      answer.response.body);
  }
  if (!IsPending(answer)) return ToolText(request, problem, /*is_error=*/true);
  if (!side.request_state.empty()) return ComeBack(request, problem, side.request_state);
  return ToolText(request, problem, side.has_output_schema.value_or(true));
}

// Clients of a tool that has an output schema take a result without one only as a failure.
std::string OfLostAnswer(const McpRequest& request, const ClientFacts& side,
                         const WriteAnswer& answer, std::string text) {
  Problem facts;
  facts.words = text.ends_with('.') ? text : text + '.';
  facts.outcome = "executed";
  if (request.wants_task) {
    return AgentError(request.id, FactsOf(ErrorCode::kAnswerLost).http_status, text);
  }
  if (const std::string* event = FindHeader(answer.response.headers, "Recourse-Event")) {
    facts.event = *event;
  }
  return ToolText(request, facts, side.has_output_schema.value_or(true));
}

// What becomes of a flow that the agent has given an order about, which no server hears of.
std::string OfOrder(const McpRequest& request, std::string_view flow) {
  while (flow.ends_with('\n')) flow.remove_suffix(1);
  return ResultMessage(request, [&](JsonObject& result) {
    if (request.era == McpEra::kModern) result.Text("resultType", "complete");
    WriteText(result, flow);
    result.Object("_meta").Raw("dev.recourse/flow", flow);
  });
}

bool Names(std::string_view accept, std::string_view type) {
  return ToLower(accept).find(type) != std::string::npos;
}

void Become(HttpResponse& response, std::string_view type, std::string body) {
  for (const char* const name : {"Content-Type", "Content-Encoding", "Location", "Retry-After",
                                 "x-should-retry", "stripe-should-retry"}) {
    RemoveHeader(response.headers, name);
  }
  response.headers.emplace_back("Content-Type", type);
  response.body = std::move(body);
}

}  // namespace

ClientFacts ReadAgentSide(const Headers& headers) {
  ClientFacts side;
  const std::string* const accept = FindHeader(headers, "Accept");
  if (accept == nullptr) return side;
  const bool all = Names(*accept, "*/*");
  side.takes_events = all || Names(*accept, kEvents);
  side.takes_json = all || Names(*accept, kJson) || Names(*accept, "application/*");
  return side;
}

bool IsPending(const WriteAnswer& answer) {
  return answer.error == ErrorCode::kApprovalPending || answer.error == ErrorCode::kInProgress;
}

std::string AgentMessage(const McpRequest& request, const ClientFacts& side,
                         const WriteAnswer& answer) {
  if (request.id.empty()) return {};
  if (answer.error) return OfProblem(request, side, answer);
  const std::string& body = answer.response.body;
  if (side.orders_flow) return OfOrder(request, body);
  if (!IsKeptMcpMessage(body)) return {};
  if (std::string text = TextOfLostAnswer(body); !text.empty()) {
    return OfLostAnswer(request, side, answer, std::move(text));
  }
  const Wanted wanted = request.wants_task ? Wanted::kTask : Wanted::kResult;
  return WithMcpId(InFormOf(request.era, MessageFor(wanted, body)), request.id);
}

HttpResponse AgentAnswer(const McpRequest& request, const ClientFacts& side, WriteAnswer answer) {
  std::string message = AgentMessage(request, side, answer);
  HttpResponse response = std::move(answer.response);
  if (message.empty()) return response;
  if (answer.error || side.orders_flow) {
    response.status = 200;
    response.reason.clear();
  }
  if (side.takes_json || !side.takes_events || response.status != 200) {
    Become(response, kJson, std::move(message));
  } else {
    Become(response, kEvents, AsEvent(message));
  }
  return response;
}

HttpResponse AgentRefusal(WriteAnswer problem) {
  HttpResponse response = std::move(problem.response);
  const int code = response.status;
  Become(response, kJson,
         AgentError("null", code, ReadProblem(response.body).words, response.body));
  return response;
}

std::string AgentError(std::string_view id, int code, std::string_view message,
                       std::string_view data) {
  while (data.ends_with('\n')) data.remove_suffix(1);
  return McpMessage(id, [&](JsonObject& json) {
    JsonObject error = json.Object("error");
    error.Number("code", code);
    error.Text("message", message);
    if (!data.empty()) error.Raw("data", data);
  });
}

std::string AsEvent(std::string_view message) {
  std::string event = "event: message\ndata: ";
  // JSON has line feeds between its tokens only, where they mean nothing.
  for (const char c : message) {
    if (c != '\n' && c != '\r') event += c;
  }
  return event + "\n\n";
}

}  // namespace recourse
