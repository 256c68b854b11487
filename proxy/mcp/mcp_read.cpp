#include "proxy/mcp/mcp_read.h"

#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/missing_tools.h"
#include "proxy/base/log/log.h"

namespace recourse {

std::string SessionOf(const Headers& headers) {
  const std::string* const session = FindHeader(headers, kSessionField);
  return session == nullptr ? std::string() : *session;
}

std::string NameOfCall(std::string_view caller, const Backend& backend, std::string_view session,
                       const Json& id) {
  std::string name;
  AppendPart(name, caller);
  AppendPart(name, backend.name);
  AppendPart(name, session);
  AppendPart(name, id.kind == Json::Kind::kString ? "text" : "number");
  AppendPart(name, id.text);
  return name;
}

bool McpRead::TakeHead(int status, std::string_view content_type, bool is_encoded) {
  tap_.Head(status, content_type, is_encoded);
  // It will not be sent again.
  std::string().swap(body_);
  room_.Hold(HeldFor::kBody, 0);
  return messages_.front().method == "subscriptions/listen";
}

std::string_view McpRead::Take(const Piece& piece) {
  tap_.Take(piece.data);
  if (piece.ends) tap_.Finish();
  // Before the client has it all, and makes the next call.
  Learn();
  if (!piece.ends || !piece.may_grow) return {};
  untold_ = tap_.Ending();
  return untold_;
}

HttpResponse McpRead::Failure(HttpResponse problem, ErrorCode code) const {
  if (messages_.size() != 1 || messages_.front().id.empty()) return problem;
  return AgentAnswer(messages_.front(), side_, {std::move(problem), code});
}

std::string_view ResumedRead::Take(const Piece& piece) {
  if (!piece.is_listening) return {};
  events_.Feed(piece.data);
  while (auto event = events_.Next()) {
    const auto message = event->data.empty() ? Result<Json>(Json()) : ParseJson(event->data);
    const Json* const id = message && IsMcpResponse(*message, "") ? message->Find("id") : nullptr;
    if (id == nullptr) continue;
    const auto call = late_.Only(
        NameOfCall(request_.caller.name(), *request_.route.match.backend, session_, *id));
    if (call.operation == 0) continue;
    request_.services.settling->Tell({.operation = call.operation,
                                      .attempt = call.attempt,
                                      .key = call.key,
                                      .message = std::move(event->data)});
  }
  return {};
}

void McpRead::Learn() {
  Services& services = request_.services;
  const Backend& backend = *request_.route.match.backend;
  const std::string& caller = request_.caller.name();
  for (AnswerTap::OfTask& told : tap_.TakeTasks()) {
    services.settling->Tell({.backend = backend.name,
                             .caller = caller,
                             .session = session_,
                             .server = ServerKeyOf(backend),
                             .method = std::move(told.method),
                             .task = std::move(told.task),
                             .message = std::move(told.message)});
  }
  const std::vector<Json> lists = tap_.TakeLists();
  for (const Json& list : lists) {
    for (const std::string& name : tools_.Learn(ServerKeyOf(backend), caller, list)) {
      services.metrics->mcp_tool_changes.Add({{"backend", backend.name}}).Increment();
      Log(LogLevel::kWarn,
          "an MCP server describes a tool in another way than before; what it says of it is not "
          "believed any more",
          {{"backend", backend.name}, {"tool", std::string_view(name).substr(0, 128)}});
    }
  }
  if (lists.empty()) return;
  using News = ToolCatalog::News;
  for (const McpToolName& one : RedeclaredTools(request_.policy(), tools_)) {
    if (!tools_.IsNews(News::kRedeclared, one.backend, one.name)) continue;
    Log(LogLevel::kWarn,
        "an MCP server declares other effects of a tool than the policy took over, which stays in "
        "force; look at `recourse policy import mcp`",
        {{"backend", one.backend}, {"tool", one.name}});
  }
  for (const McpToolName& one : MissingTools(request_.policy(), tools_)) {
    if (!tools_.IsNews(News::kMissing, one.backend, one.name)) continue;
    Log(LogLevel::kWarn,
        "the policy names a tool that the MCP server does not list: is it spelled so? Calls by "
        "another name are unlisted",
        {{"backend", one.backend}, {"tool", one.name}});
  }
}

}  // namespace recourse
