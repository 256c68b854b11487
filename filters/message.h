// Messages of protocols that have them: what one says about its call, and what is said of a call
// that its server has taken on and finishes later, which is a task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/model/policy.h"
#include "proxy/base/clock.h"

namespace recourse {

// What a server's final message says about its call.
enum class MessageKind : std::uint8_t {
  kResult,         // done
  kToolError,      // the tool failed
  kRefused,        // an error that proves that nothing was executed
  kError,          // any other error: it tells nothing
  kInputRequired,  // not executed yet: the client is to answer questions first
  kTask,           // taken on, not done yet
};

// The kind of a response, and its text as it is kept: without the id of its request.
struct FinalMessage {
  MessageKind kind = MessageKind::kError;
  std::string message;
};

// What a server says about asking.
struct TaskPace {
  Millis poll{};                 // not more often than this
  std::optional<Millis> life{};  // of the task, from its creation; unset: for ever, or not said
};

struct TaskReport {
  enum class State : std::uint8_t {
    kUnclear,  // the answer tells nothing
    kRunning,
    kEnded,
    kGone,      // the server knows no such task, or nothing of tasks
    kNoResult,  // an error in place of a task's result, which may be that of the call
  };
  State state = State::kUnclear;
  std::string task;                   // whose it is, where it says so
  std::string status;                 // of kEnded: completed, failed, cancelled
  std::optional<FinalMessage> final;  // of kEnded: the answer to the call, where it was told
  bool is_apart = false;              // of kEnded: what it came to has still to be asked for
  TaskPace pace;                      // of kRunning
};

// The methods that ask about a task: how it stands, and what it came to.
inline constexpr std::string_view kTaskState = "tasks/get";
inline constexpr std::string_view kTaskResult = "tasks/result";

// Tells a task from all others of the ledger.
std::string NameOfTask(std::string_view backend, std::string_view caller, std::string_view session,
                       std::string_view task);

// A backend that leads to another server by now has said nothing yet.
std::string ServerKeyOf(const Backend& backend);

}  // namespace recourse
