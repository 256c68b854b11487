// The body of a call as filters read it, and the values that selectors and templates see.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/call_body.h"
#include "filters/call_context.h"
#include "filters/upstream.h"
#include "policy/template/template.h"
#include "proxy/base/json/json.h"

namespace recourse {

// Reads the body by its content type. JSON fails with kMalformedRequest and the reason when it does
// not parse, and with kUnsupportedMediaType for another charset than UTF-8; a form with
// kRequestTooLarge when it has more than kFormPairsMax pairs. Forms and multipart bodies that
// cannot be read one way only, encoded bodies and all other types are kRaw: their bytes are the
// arguments. A body of no bytes is kNone whatever its type says.
Result<CallBody> ReadCallBody(const HttpRequest& request);

// The same for a request to `backend`. Of a message to its endpoint the body is the arguments of
// the call that it makes (Codec::Read). Fails with kMalformedRequest when it makes none, or
// several.
Result<CallBody> ReadCallBody(const Backend& backend, const HttpRequest& request);

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

// True for a message to the endpoint of a server whose protocol has one.
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

// The same where texts of ours are put in: the body as it is sent, which is read into `raw`, if
// that is not the arguments (Codec::PlacesAreInBody).
CallValues ValuesAsSent(const RequestContext& context, const CallBody& body,
                        std::optional<Json>& raw);

// What rules a write that no tool of the policy matches.
const Tool& UnlistedTool();

// True when the tool's rule asks for a human: without `when` always, else when all of its
// conditions hold or one of them cannot be evaluated on this call.
bool NeedsApproval(const ApprovalRule& rule, const CallValues& values);

// An answer's body as JSON, decoded when it is compressed; nullopt when it is cut, too large, not
// JSON, or encoded in a way that cannot be read (DecodeContent). Of a message: Codec::Output.
std::optional<Json> ReadAnswerBody(const Answer& answer);
// The same for a body that is taken for whole.
std::optional<Json> ReadJsonAnswer(const HttpResponse& response);

// A selected value as external_ref: scalar text, or empty when it is none, is empty, has control
// characters or is longer than kExternalRefBytesMax.
std::string ExternalRefText(const std::optional<Json>& value);

}  // namespace recourse
