#include "filters/mcp/mcp_codec.h"

#include <algorithm>
#include <utility>

#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/mcp_outcome.h"
#include "filters/mcp/mcp_task.h"
#include "filters/mcp/mcp_upstream.h"
#include "filters/mcp/redact_output.h"
#include "policy/model/principal.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

// What another message than tools/call asks for: its params, without what tells of it alone.
Json OtherParams(std::string_view body) {
  Json params;
  params.kind = Json::Kind::kObject;
  const auto message = ParseJson(body);
  const Json* const given = message ? message->Find("params") : nullptr;
  if (given == nullptr) return params;
  if (given->kind != Json::Kind::kObject) return *given;
  for (const Json::Member& member : given->members) {
    if (member.first != "_meta") params.members.push_back(member);
  }
  return params;
}

class OfMcp final : public Codec {
 public:
  Result<CallBody> Read(const Backend&, const HttpRequest& request) const override {
    auto messages = ReadMcpRequest(request.headers, request.body);
    if (!messages || messages->size() != 1) return Malformed("the body is not one message of MCP");
    return TakeReading(messages->front(), request.body);
  }
  std::string_view Spelled(const Tool& tool, std::string_view called) const override {
    const auto found = std::ranges::find(tool.mcp_names, called);
    return found == tool.mcp_names.end() ? std::string_view() : *found;
  }
  std::string ObjectionToEdit(const Policy& policy, const Backend& backend, std::string_view tool,
                              const HttpRequest& request, const std::string& body) const override;

  std::optional<Verdict> Judge(const Tool& tool, const Answer& answer,
                               const CallValues& values) const override {
    return OfMcpAnswer(tool, answer, values);
  }
  std::optional<Json> Output(std::string_view message) const override {
    const auto json = ParseJson(message);
    return json ? McpToolOutput(*json) : std::nullopt;
  }
  bool Redact(std::string& message, const std::vector<Selector>& places, std::string_view instead,
              std::string& taken) const override {
    return RedactMcpOutput(message, places, instead, taken);
  }
  std::string FailureText(std::string_view message) const override {
    const auto json = ParseJson(message);
    return json ? McpFailureText(*json) : std::string();
  }
  std::string LostAnswer(std::string_view external_ref, std::string_view) const override {
    return McpOfLostAnswer(external_ref);
  }

  void KeepSession(const Headers& of_call, Headers& rendered) const override {
    for (const std::string_view name : {std::string_view("MCP-Protocol-Version"), kSessionField}) {
      const std::string* const value = FindHeader(of_call, name);
      if (value != nullptr) SetHeader(rendered, name, *value);
    }
  }

  bool AsksAboutTask(const RenderedRequest& asked) const override {
    return recourse::AsksAboutTask(asked);
  }
  std::optional<RenderedRequest> AskAboutTask(std::string_view message,
                                              Headers fields) const override {
    const auto json = ParseJson(message);
    if (!json) return std::nullopt;
    return recourse::AskAboutTask(*json, std::move(fields));
  }
  RenderedRequest AskForTaskResult(RenderedRequest about_task) const override {
    return recourse::AskForTaskResult(std::move(about_task));
  }
  std::string NameOfTask(std::string_view backend, std::string_view caller,
                         const RenderedRequest& about_task) const override {
    return recourse::NameOfTask(backend, caller, about_task);
  }
  TaskPace PaceOfTask(std::string_view message) const override {
    const auto json = ParseJson(message);
    return json ? recourse::PaceOfTask(*json) : TaskPace();
  }
  TaskReport ReadTask(std::string_view method, std::string_view response) const override {
    const auto json = ParseJson(response);
    return json ? ReadTaskReport(method, *json, response) : TaskReport();
  }
  std::optional<FinalMessage> ReadFinal(std::string_view response) const override {
    const auto json = ParseJson(response);
    if (!json) return std::nullopt;
    return ReadMcpFinal(*json, response);
  }
  std::string WithTask(std::string_view final_message,
                       std::string_view task_message) const override {
    return recourse::WithTask(final_message, task_message);
  }

  bool ListensByGet() const override { return true; }
  std::unique_ptr<UpstreamConnection> Over(
      const CodecParts& parts, const Backend& backend, std::shared_ptr<const Backend> shared,
      std::unique_ptr<UpstreamConnection> plain) const override {
    // A copy: policies may be replaced while it runs.
    if (shared == nullptr) shared = std::make_shared<const Backend>(backend);
    return OverMcp(*this, parts, std::move(shared), std::move(plain));
  }
  Result<Answer> ReadRecorded(Answer recorded, const HttpRequest& call) const override {
    return ReadRecordedMcp(*this, std::move(recorded), call);
  }
};

// Everything but the arguments is what was asked for.
std::string OfMcp::ObjectionToEdit(const Policy&, const Backend&, std::string_view,
                                   const HttpRequest& request, const std::string& body) const {
  static const std::vector<std::string> kArguments{"/params/arguments"};
  const auto read = ReadMcpRequest(request.headers, body);
  if (!read) return "the new body cannot be read: " + read.error().message;
  const auto before = ParseJson(request.body), after = ParseJson(body);
  if (before && after && CanonicalJson(*before, kArguments) == CanonicalJson(*after, kArguments)) {
    return {};
  }
  return "of an MCP call only params.arguments may be changed";
}

}  // namespace

const Codec& McpCodec() {
  static const OfMcp codec;
  return codec;
}

CallBody TakeReading(McpRequest& message, std::string_view body) {
  CallBody reading;
  reading.form = BodyForm::kJson;
  if (message.kind == McpRequest::Kind::kToolCall) reading.call_method = kToolsCall;
  reading.json = reading.calls_tool() ? std::move(message.arguments) : OtherParams(body);
  reading.call_name = reading.calls_tool() ? message.tool : message.method;
  reading.message_id = message.id;
  reading.message_intent = message.intent;
  reading.message_traceparent = message.traceparent;
  return reading;
}

}  // namespace recourse
