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

// What a server says about asking.
struct TaskPace {
  Millis poll{};                 // not more often than this
  std::optional<Millis> life{};  // of the task, from its creation; unset: for ever, or not said
};

// The pace of the task that an answer is (McpKind::kTask).
TaskPace PaceOfTask(const Json& message);

// What asks how that task stands, in the era and session of the call, whose fields `fields` has.
// Its target is left empty: it is the server's endpoint. nullopt: the task has no id that could be
// asked about, or `fields` are too large to be kept.
std::optional<RenderedRequest> AskAboutTask(const Json& message, Headers fields);
// The same for its result, which servers of 2025-11-25 do not tell with its status.
RenderedRequest AskForTaskResult(RenderedRequest about_task);

// Tells a task from all others of the ledger: by caller and session, too.
std::string NameOfTask(std::string_view backend, std::string_view caller, std::string_view session,
                       std::string_view task);
// The same of a kept AskAboutTask.
std::string NameOfTask(std::string_view backend, std::string_view caller,
                       const RenderedRequest& about_task);

struct TaskReport {
  enum class State : std::uint8_t {
    kUnclear,  // the answer tells nothing
    kRunning,
    kEnded,
    kGone,      // the server knows no such task, or nothing of tasks
    kNoResult,  // an error in place of a task's result, which may be that of the call
  };
  State state = State::kUnclear;
  std::string task;               // whose it is, where it says so
  std::string status;             // of kEnded: completed, failed, cancelled
  std::optional<McpFinal> final;  // of kEnded: the answer to the call, where it was told
  bool is_apart = false;          // of kEnded: what it came to has still to be asked for
  TaskPace pace;                  // of kRunning
};
// `message` is the response to tasks/get or tasks/result, and `text` what it was read from.
TaskReport ReadTaskReport(std::string_view method, const Json& message, std::string_view text);

// A kept answer that is both what the call has come to and the task that its client was given, for
// clients that take only one of them.
std::string WithTask(std::string_view final_message, std::string_view task_message);
enum class Wanted : std::uint8_t { kResult, kTask };
// The message for such a client; any other kept message as it is.
std::string MessageFor(Wanted wanted, std::string_view kept);

}  // namespace recourse
