// The body of a call as filters read it, and the values that selectors and templates see.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/call_context.h"
#include "filters/upstream.h"
#include "policy/template/template.h"
#include "proxy/base/json/json.h"

namespace recourse {

struct McpRequest;

enum class BodyForm : std::uint8_t { kNone, kJson, kForm, kMultipart, kRaw };

struct BodyPart {
  Headers headers;  // names in lower case
  std::string content;
  std::vector<std::string> names;  // each that some reader takes for its name, once
  // It has one name, and its content is its value: no file, no other type than text, and UTF-8.
  bool is_text = false;
};

struct CallBody {
  BodyForm form = BodyForm::kNone;
  // kJson: the body; of a form: an object of strings, of the names that occur once, and of
  // multipart of the parts that are text.
  Json json;
  std::vector<std::pair<std::string, std::string>> pairs;  // kForm: decoded, in order
  std::vector<BodyPart> parts;                             // kMultipart
  std::string raw_type;  // kRaw: Content-Type and Content-Encoding, which give the bytes meaning
  // Of a call by name, whose arguments are its body: that of an MCP tool (or the method, when the
  // message calls none) or of a mutation's field; empty: it is none.
  std::string call_name;
  std::string_view call_method;  // kToolsCall, kMutation; empty: it calls nothing
  std::string selection;         // of a mutation: what it selects of its answer
  // Of an MCP call: its id as it came, and what its `_meta` says beside that.
  std::string mcp_id, mcp_intent, mcp_traceparent;
  // What the agent wrote into the body or the query where the backend takes its key; empty:
  // nothing.
  std::string placed_key;

  // What selectors on the body read; nullptr when it has no readable values.
  const Json* values() const { return form == BodyForm::kJson || is_form() ? &json : nullptr; }
  bool calls_tool() const { return !call_method.empty(); }
  bool is_form() const { return form == BodyForm::kForm || form == BodyForm::kMultipart; }
  // It says more than those selectors can read.
  bool is_partial() const {
    return form == BodyForm::kRaw ||
           (is_form() && json.members.size() != pairs.size() + parts.size());
  }
};

// Reads the body by its content type. JSON fails with kMalformedRequest and the reason when it does
// not parse, and with kUnsupportedMediaType for another charset than UTF-8; a form with
// kRequestTooLarge when it has more than kFormPairsMax pairs. Forms and multipart bodies that
// cannot be read one way only, encoded bodies and all other types are kRaw: their bytes are the
// arguments. A body of no bytes is kNone whatever its type says.
Result<CallBody> ReadCallBody(const HttpRequest& request);

// The same for a request to `backend`. Of a call to an MCP server the body is the arguments of its
// tool, or what other params it has; of one to a GraphQL server those of its mutation's field, with
// variables put in. Fails with kMalformedRequest when it is no single message or mutation.
Result<CallBody> ReadCallBody(const Backend& backend, const HttpRequest& request);

// The same for a message that is read already; `body` is its bytes. Takes the arguments out of it.
CallBody TakeReading(McpRequest& message, std::string_view body);

// The memory that a reading takes.
std::size_t SizeOf(const CallBody& body);

// The context's own reading if it has one, else a new one of its request. Fails with kInvalidKey
// where a key has its place in the body or the query, and what stands there is none.
Result<std::shared_ptr<const CallBody>> ReadingOf(const RequestContext& context);

// What the agent wrote where `tool` has the key in the body or the query; empty: nothing. Fails
// with kInvalidKey as ReadingOf does.
Result<std::string> ReadPlacedKey(const Tool* tool, const RequestContext& context,
                                  const CallBody& body);

// True: what is done with the whole body goes through context.keeper->RunApart.
inline bool IsLarge(const RequestContext& context) {
  return context.keeper != nullptr && context.request.body.size() >= limits::kLargeBodyBytes;
}
// What is said where that had no room.
inline constexpr std::string_view kNoRoomApart = "too many large bodies wait to be judged";

// True for a message to the endpoint of a server of MCP or GraphQL.
bool IsEndpointMessage(const Backend& backend, const HttpRequest& request);

// The same bytes without a reading of them, for calls that are only logged.
CallBody RawCallBody(const HttpRequest& request);

// True when Content-Encoding says that the bytes stand for others.
bool IsEncoded(const Headers& headers);

// True when an escape is malformed, so that decoded values would have a second reading.
bool HasMalformedEscape(std::string_view text);

// The call's side of the values; key, external_ref and answer are unset. Points into both
// arguments.
CallValues ValuesOfCall(const RequestContext& context, const CallBody& body);

// The same where texts of ours are put in: of a GraphQL request the body as it is sent, which is
// read into `raw`, and not the arguments.
CallValues ValuesAsSent(const RequestContext& context, const CallBody& body,
                        std::optional<Json>& raw);

// What rules a write that no tool of the policy matches.
const Tool& UnlistedTool();

// True when the tool's rule asks for a human: without `when` always, else when all of its
// conditions hold or one of them cannot be evaluated on this call.
bool NeedsApproval(const ApprovalRule& rule, const CallValues& values);

// An answer's body as JSON, decoded when it is compressed; nullopt when it is cut, too large, not
// JSON, or encoded in a way that cannot be read (DecodeContent). Of an MCP tool: its output.
std::optional<Json> ReadAnswerBody(const Answer& answer);
// The same for a body that is taken for whole.
std::optional<Json> ReadJsonAnswer(const HttpResponse& response);

// A selected value as external_ref: scalar text, or empty when it is none, is empty, has control
// characters or is longer than kExternalRefBytesMax.
std::string ExternalRefText(const std::optional<Json>& value);

}  // namespace recourse
