#include "filters/mcp/mcp_task.h"

#include <algorithm>
#include <charconv>

#include "filters/mcp/mcp_message.h"
#include "filters/mcp/mcp_request.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

constexpr std::string_view kTakesTasks = R"({"extensions":{"io.modelcontextprotocol/tasks":{}}})";

// Milliseconds under either era's name; nullopt: none, or nothing that could be meant.
std::optional<Millis> MillisAt(const Json& task, std::string_view legacy, std::string_view modern) {
  const Json* value = task.Find(modern);
  if (value == nullptr) value = task.Find(legacy);
  if (value == nullptr || value->kind != Json::Kind::kNumber) return std::nullopt;
  const std::string text = ScalarText(*value);
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || after != end || number < 0) return std::nullopt;
  return std::min(Millis(number), Millis(limits::kTaskLifeMax));
}

TaskPace PaceIn(const Json& task) {
  const Millis poll = MillisAt(task, "pollInterval", "pollIntervalMs").value_or(Millis(0));
  return {std::min(poll, Millis(limits::kTaskPollMax)), MillisAt(task, "ttl", "ttlMs")};
}

// The task in an answer that is one: a member of it, or, in the newer form, all of it.
const Json* TaskIn(const Json& message) {
  const Json* const result = message.Find("result");
  if (result == nullptr || result->kind != Json::Kind::kObject) return nullptr;
  const Json* const inner = result->Find("task");
  return inner != nullptr && inner->kind == Json::Kind::kObject ? inner : result;
}

// The response to the call that stands in the task's state under `name`, `result` or `error`.
std::optional<FinalMessage> FinalIn(std::string_view text, std::string_view name) {
  const auto span = FindJsonSpan(text, "/result/" + std::string(name));
  if (!span) return std::nullopt;
  const std::string response =
      McpMessage({}, [&](JsonObject& json) { json.Raw(name, text.substr(span->at, span->size)); });
  const auto json = ParseJson(response);
  if (!json) return std::nullopt;
  return ReadMcpFinal(*json, response);
}

// Nothing but the outcome of a call is one.
bool IsOutcome(const FinalMessage& final) {
  return final.kind != MessageKind::kTask && final.kind != MessageKind::kInputRequired;
}

bool IsUnknownTask(const Json& message) {
  const Json* const code = AtPointer(message, "/error/code");
  if (code == nullptr || code->kind != Json::Kind::kNumber) return false;
  const std::string text = ScalarText(*code);
  return text == "-32602" || text == "-32601";
}

TaskReport OfStatus(const Json& message, std::string_view text) {
  TaskReport report;
  report.task = TextAt(message, "/result/taskId");
  report.status = TextAt(message, "/result/status");
  if (report.status == "working" || report.status == "input_required") {
    report.state = TaskReport::State::kRunning;
    report.pace = PaceIn(*message.Find("result"));
    return report;
  }
  const bool has_failed = report.status == "failed";
  if (!has_failed && report.status != "completed" && report.status != "cancelled") return report;
  report.state = TaskReport::State::kEnded;
  if (report.status != "cancelled") report.final = FinalIn(text, has_failed ? "error" : "result");
  if (report.final && !IsOutcome(*report.final)) report.final.reset();
  report.is_apart = !report.final && report.status != "cancelled";
  return report;
}

}  // namespace

TaskPace PaceOfTask(const Json& message) {
  const Json* const task = TaskIn(message);
  return task == nullptr ? TaskPace() : PaceIn(*task);
}

std::optional<RenderedRequest> AskAboutTask(const Json& message, Headers fields) {
  const Json* const task = TaskIn(message);
  const std::string_view id = task == nullptr ? std::string_view() : TextAt(*task, "/taskId");
  if (id.empty() || id.size() > limits::kTaskIdBytesMax) return std::nullopt;
  const std::string* const version = FindHeader(fields, "MCP-Protocol-Version");
  std::string body = McpMessage("1", [&](JsonObject& json) {
    json.Text("method", kTaskState);
    JsonObject params = json.Object("params");
    params.Text("taskId", id);
    if (version != nullptr && *version >= kModernMcp) WriteMcpMeta(params, *version, kTakesTasks);
  });
  std::size_t size = body.size();
  for (const auto& [name, value] : fields) size += name.size() + value.size();
  if (size > limits::kTaskRequestBytesMax) return std::nullopt;
  return RenderedRequest{"POST", "", std::move(fields), std::move(body)};
}

bool AsksAboutTask(const RenderedRequest& asked) {
  const auto message = ParseJson(asked.body);
  return message && TextOf(*message, "method") == kTaskState;
}

RenderedRequest AskForTaskResult(RenderedRequest about_task) {
  const auto method = FindJsonSpan(about_task.body, "/method");
  if (method) about_task.body.replace(method->at, method->size, R"("tasks/result")");
  return about_task;
}

std::string NameOfTask(std::string_view backend, std::string_view caller,
                       const RenderedRequest& about_task) {
  const std::string* const session = FindHeader(about_task.headers, "Mcp-Session-Id");
  const auto body = ParseJson(about_task.body);
  return NameOfTask(backend, caller, session == nullptr ? std::string_view() : *session,
                    body ? TextAt(*body, "/params/taskId") : std::string_view());
}

TaskReport ReadTaskReport(std::string_view method, const Json& message, std::string_view text) {
  TaskReport report;
  if (message.Find("error") != nullptr) {
    if (method == kTaskResult) report.state = TaskReport::State::kNoResult;
    if (method == kTaskState && IsUnknownTask(message)) report.state = TaskReport::State::kGone;
    return report;
  }
  if (method == kTaskState) return OfStatus(message, text);
  const bool is_result = message.Find("result") != nullptr;
  if (method != kTaskResult || !is_result) return report;
  FinalMessage final = ReadMcpFinal(message, text);
  if (!IsOutcome(final)) return report;
  report.task = TextAt(message, "/result/_meta/io.modelcontextprotocol~1related-task/taskId");
  report.state = TaskReport::State::kEnded;
  report.status = final.kind == MessageKind::kResult ? "completed" : "failed";
  report.final = std::move(final);
  return report;
}

std::string WithTask(std::string_view final_message, std::string_view task_message) {
  const auto task = FindJsonSpan(task_message, "/result");
  if (!task || !final_message.ends_with('}')) return std::string(final_message);
  std::string both(final_message);
  AppendMembers(
      both, [&](JsonObject& json) { json.Raw("task", task_message.substr(task->at, task->size)); });
  return both;
}

std::string MessageFor(Wanted wanted, std::string_view kept) {
  const bool may_be_both = kept.find(R"(,"task")") != std::string_view::npos;
  const auto task = may_be_both && ParseJson(kept) ? FindJsonSpan(kept, "/task") : std::nullopt;
  if (!task) return std::string(kept);
  if (wanted == Wanted::kTask) {
    return McpMessage(
        {}, [&](JsonObject& json) { json.Raw("result", kept.substr(task->at, task->size)); });
  }
  return std::string(kept.substr(0, kept.rfind(',', task->at))) + "}";
}

}  // namespace recourse
