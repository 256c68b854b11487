// Tasks: calls that an MCP server takes on and finishes later (2025-11-25 `tasks`, and
// io.modelcontextprotocol/tasks of 2026-07-28). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "filters/mcp/mcp_answer.h"
#include "policy/template/template.h"
#include "proxy/base/clock.h"

namespace recourse {

// The pace of the task that an answer is (MessageKind::kTask).
TaskPace PaceOfTask(const Json& message);

// What asks how that task stands, in the era and session of the call, whose fields `fields` has.
// Its target is left empty: it is the server's endpoint. nullopt: the task has no id that could be
// asked about, or `fields` are too large to be kept.
std::optional<RenderedRequest> AskAboutTask(const Json& message, Headers fields);
// Whether that is such a request.
bool AsksAboutTask(const RenderedRequest& asked);
// The same for its result, which servers of 2025-11-25 do not tell with its status.
RenderedRequest AskForTaskResult(RenderedRequest about_task);

// Of a kept AskAboutTask.
std::string NameOfTask(std::string_view backend, std::string_view caller,
                       const RenderedRequest& about_task);

// `message` is the response to tasks/get or tasks/result, and `text` what it was read from.
TaskReport ReadTaskReport(std::string_view method, const Json& message, std::string_view text);

// A kept answer that is both what the call has come to and the task that its client was given, for
// clients that take only one of them.
std::string WithTask(std::string_view final_message, std::string_view task_message);
enum class Wanted : std::uint8_t { kResult, kTask };
// The message for such a client; any other kept message as it is.
std::string MessageFor(Wanted wanted, std::string_view kept);

}  // namespace recourse
