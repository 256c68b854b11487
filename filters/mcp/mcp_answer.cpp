#include "filters/mcp/mcp_answer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "filters/mcp/mcp_message.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

// How a message begins, as whole JSON that lacks the rest.
constexpr std::string_view Beginning(std::string_view message) {
  return message.substr(0, message.find_last_not_of('}') + 1);
}
constexpr std::string_view kStart = Beginning(R"({"jsonrpc":"2.0"})");
constexpr std::string_view kKeptResult = Beginning(R"({"jsonrpc":"2.0","result":})");
constexpr std::string_view kKeptError = Beginning(R"({"jsonrpc":"2.0","error":})");
// What is known to be executed begins so, which no server's answer does.
constexpr std::string_view kOfLostAnswer =
    Beginning(R"({"jsonrpc":"2.0","result":{"_meta":{"dev.recourse/outcome":"executed"},)"
              R"("isError":false}})");

// The text of the first content that is text.
std::string_view FirstText(const Json& message) {
  const Json* const content = AtPointer(message, "/result/content");
  if (content == nullptr || content->kind != Json::Kind::kArray) return {};
  for (const Json& item : content->items) {
    if (TextOf(item, "type") == "text") return TextOf(item, "text");
  }
  return {};
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The official SDKs report a result of the wrong form as invalid arguments, too: after the tool has
// run.
bool IsAboutTheResult(std::string_view text) {
  return Contains(text, "utput validation") || Contains(text, "output schema") ||
         Contains(text, "tructured content");
}

// What servers on the official SDKs answer instead of running the tool. Only their own words count:
// a tool that calls another server may pass on what that one said, after effects of its own.
bool IsRefusalOfArguments(std::string_view text) {
  static constexpr std::array<std::string_view, 4> kOpenings{
      "MCP error -32602: Input validation error: ", "MCP error -32602: Invalid arguments for tool ",
      "MCP error -32602: Tool ", "Input validation error: Invalid arguments for tool "};
  static constexpr std::string_view kNeedsTask = " requires task augmentation (taskSupport: ";
  if (IsAboutTheResult(text)) return false;
  if (text.starts_with("MCP error -32601: Tool ")) return Contains(text, kNeedsTask);
  return std::any_of(kOpenings.begin(), kOpenings.end(),
                     [&](std::string_view opening) { return text.starts_with(opening); });
}

MessageKind KindOfError(const Json& error) {
  static constexpr std::array<std::string_view, 7> kRefusals{"-32700", "-32600", "-32601", "-32602",
                                                             "-32020", "-32021", "-32022"};
  const Json* const code = AtPointer(error, "/code");
  if (code == nullptr || code->kind != Json::Kind::kNumber) return MessageKind::kError;
  const std::string text = ScalarText(*code);
  if (text == "-32042") return MessageKind::kInputRequired;
  if (text == "-32602" && IsAboutTheResult(TextAt(error, "/message"))) return MessageKind::kError;
  const bool is_refusal = std::find(kRefusals.begin(), kRefusals.end(), text) != kRefusals.end();
  return is_refusal ? MessageKind::kRefused : MessageKind::kError;
}

MessageKind KindOfResult(const Json& message, const Json& result) {
  if (result.kind != Json::Kind::kObject) return MessageKind::kError;
  if (const Json* type = result.Find("resultType")) {
    if (type->kind != Json::Kind::kString) return MessageKind::kError;
    if (type->text == "input_required") return MessageKind::kInputRequired;
    if (type->text == "task") return MessageKind::kTask;
    if (type->text != "complete") return MessageKind::kError;
  } else if (result.Find("content") == nullptr && !TextAt(result, "/task/taskId").empty()) {
    return MessageKind::kTask;  // of 2025-11-25
  }
  const Json* const failed = result.Find("isError");
  if (failed == nullptr || failed->kind == Json::Kind::kFalse) return MessageKind::kResult;
  return IsRefusalOfArguments(FirstText(message)) ? MessageKind::kRefused : MessageKind::kToolError;
}

// The code unit of the escape \\uXXXX at `at`; nullopt: there is none.
std::optional<unsigned> EscapedUnit(std::string_view text, std::size_t at) {
  constexpr std::size_t kSize = 6;
  if (text.size() - std::min(at, text.size()) < kSize || !text.substr(at).starts_with("\\u")) {
    return std::nullopt;
  }
  unsigned unit = 0;
  const char* const end = text.data() + at + kSize;
  const auto [after, ec] = std::from_chars(text.data() + at + 2, end, unit, 16);
  if (ec != std::errc() || after != end) return std::nullopt;
  return unit;
}

bool IsHigh(unsigned unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool IsLow(unsigned unit) { return unit >= 0xdc00 && unit < 0xe000; }

void ReplaceLoneSurrogates(std::string& text) {
  for (std::size_t at = text.find('\\'); at < text.size(); at = text.find('\\', at)) {
    const auto unit = EscapedUnit(text, at);
    if (!unit) {
      at += 2;  // the backslash and what it escapes
      continue;
    }
    const auto next = IsHigh(*unit) ? EscapedUnit(text, at + 6) : std::nullopt;
    const bool is_pair = next && IsLow(*next);
    if (!is_pair && (IsHigh(*unit) || IsLow(*unit))) text.replace(at, 6, "\\ufffd");
    at += is_pair ? 12 : 6;
  }
}

}  // namespace

std::optional<Json> ReadMcpJson(std::string& text) {
  auto json = ParseJson(text);
  if (!json) {
    ReplaceLoneSurrogates(text);
    json = ParseJson(text);
  }
  if (!json) return std::nullopt;
  return std::move(*json);
}

bool IsMcpResponse(const Json& message, std::string_view id) {
  if (message.kind != Json::Kind::kObject || message.Find("method") != nullptr) return false;
  const bool is_error = message.Find("error") != nullptr;
  if (!is_error && message.Find("result") == nullptr) return false;
  if (id.empty()) return true;
  const Json* const said = message.Find("id");
  // What cannot be read has no id to be answered with.
  if (said == nullptr || said->kind == Json::Kind::kNull) return is_error;
  const auto wanted = ParseJson(id);
  return wanted && wanted->kind == said->kind && wanted->text == said->text;
}

FinalMessage ReadMcpFinal(const Json& response, std::string_view text) {
  FinalMessage final;
  const Json* const error = response.Find("error");
  const Json* const result = response.Find("result");
  const std::string_view name = error != nullptr ? "error" : "result";
  // Both: two readings, so that it tells nothing.
  if (error != nullptr && result == nullptr) final.kind = KindOfError(*error);
  if (result != nullptr && error == nullptr) final.kind = KindOfResult(response, *result);
  const auto span = FindJsonSpan(text, "/" + std::string(name));
  final.message = McpMessage({}, [&](JsonObject& json) {
    json.Raw(name, span ? text.substr(span->at, span->size) : std::string_view("{}"));
  });
  return final;
}

bool IsKeptMcpMessage(std::string_view body) {
  return body.starts_with(kKeptResult) || body.starts_with(kKeptError);
}

std::string WithMcpId(std::string_view kept, std::string_view id) {
  std::string whole = McpMessage(id, [](JsonObject&) {});
  whole.pop_back();
  return whole.append(kept.substr(kStart.size()));
}

std::optional<Json> McpToolOutput(const Json& message) {
  if (const Json* structured = AtPointer(message, "/result/structuredContent")) return *structured;
  const std::string_view text = FirstText(message);
  const auto begin = text.find_first_not_of(" \t\r\n");
  // Mostly words for people, which are not looked through.
  if (begin == text.npos || (text[begin] != '{' && text[begin] != '[')) return std::nullopt;
  auto parsed = ParseJson(text);
  if (!parsed) return std::nullopt;
  return std::move(*parsed);
}

std::string McpOfLostAnswer(std::string_view external_ref) {
  std::string text = "It was executed";
  if (!external_ref.empty()) text.append("; its reference is ").append(external_ref);
  text += ". Its own answer was lost. Do not repeat it.";
  return McpMessage({}, [&](JsonObject& json) {
    JsonObject result = json.Object("result");
    result.Object("_meta").Text("dev.recourse/outcome", "executed");
    result.Bool("isError", false);
    JsonList content = result.List("content");
    JsonObject item = content.Object();
    item.Text("type", "text");
    item.Text("text", text);
  });
}

std::string TextOfLostAnswer(std::string_view message) {
  if (!message.starts_with(kOfLostAnswer)) return {};
  const auto json = ParseJson(message);
  return std::string(json ? FirstText(*json) : std::string_view());
}

std::string McpFailureText(const Json& message) {
  std::string text(TextAt(message, "/error/message"));
  if (text.empty()) text = FirstText(message);
  if (text.size() <= limits::kFailureBytesMax) return text;
  std::size_t end = limits::kFailureBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace recourse
