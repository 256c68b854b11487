#include "proxy/lanes/mcp_read.h"

#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/missing_tools.h"
#include "proxy/base/log/log.h"

namespace recourse {

std::string SessionOf(const Headers& headers) {
  const std::string* const session = FindHeader(headers, "Mcp-Session-Id");
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

void TakeLate(const ServedRequest& request, ResumedStreamTap& late, std::string_view piece) {
  Services& services = request.services;
  late.events.Feed(piece);
  while (auto event = late.events.Next()) {
    const auto message = event->data.empty() ? Result<Json>(Json()) : ParseJson(event->data);
    const Json* const id = message && IsMcpResponse(*message, "") ? message->Find("id") : nullptr;
    if (id == nullptr) continue;
    const auto call = services.mcp_late.Only(
        NameOfCall(request.caller.name(), *request.route.match.backend, late.session, *id));
    if (call.operation == 0) continue;
    services.settling->Tell(
        {.operation = call.operation, .attempt = call.attempt, .message = std::move(event->data)});
  }
}

void McpRead::Learn(const ServedRequest& request) {
  Services& services = request.services;
  const Backend& backend = *request.route.match.backend;
  const std::string& caller = request.caller.name();
  for (AnswerTap::OfTask& told : tap.TakeTasks()) {
    services.settling->Tell({.backend = backend.name,
                             .caller = caller,
                             .session = session,
                             .server = ServerKeyOf(backend),
                             .method = std::move(told.method),
                             .task = std::move(told.task),
                             .message = std::move(told.message)});
  }
  const std::vector<Json> lists = tap.TakeLists();
  for (const Json& list : lists) {
    for (const std::string& name : services.mcp_tools.Learn(ServerKeyOf(backend), caller, list)) {
      services.metrics->mcp_tool_changes.Add({{"backend", backend.name}}).Increment();
      Log(LogLevel::kWarn,
          "an MCP server describes a tool in another way than before; what it says of it is not "
          "believed any more",
          {{"backend", backend.name}, {"tool", std::string_view(name).substr(0, 128)}});
    }
  }
  if (lists.empty()) return;
  for (const MissingTool& one : MissingTools(request.policy(), services.mcp_tools)) {
    if (!services.mcp_tools.IsNewsThatMissing(one.backend, one.name)) continue;
    Log(LogLevel::kWarn,
        "the policy names a tool that the MCP server does not list: is it spelled so? Calls by "
        "another name are unlisted",
        {{"backend", one.backend}, {"tool", one.name}});
  }
}

}  // namespace recourse
