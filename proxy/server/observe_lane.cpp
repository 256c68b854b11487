// Observe mode: every call goes on as it came. Calls that enforce would take for writes are
// observed beside the stream; nothing is refused here that can be forwarded.
#include <algorithm>

#include "filters/trace/traceparent.h"
#include "policy/path.h"
#include "proxy/base/http_message.h"
#include "proxy/server/observation.h"
#include "proxy/server/session.h"

namespace recourse {
Task<bool> Session::ServeObserved(McpPlace place, std::string_view path, std::string_view query) {
  const Backend& backend = *place.backend;
  if (place.where == McpPath::kExact) co_return co_await ServeObservedMcp(backend, query);
  RouteMatch match;
  std::optional<Error> refusal;
  if (auto found = view_->policy->routes->Match(backend, head_.method, path, scratch_)) {
    match = *found;
    if (match.tool == nullptr && match.unlisted == UnlistedRule::kDeny) {
      refusal = Error(ErrorCode::kDenied, "no tool of the policy matches this call");
    }
  } else {
    refusal = found.error();
    match.backend = &backend;
    match.path = path;
    match.effect = IsReadMethod(head_.method) ? Effect::kRead : Effect::kWrite;
  }
  if (place.where == McpPath::kAmbiguous) {
    refusal = Error(ErrorCode::kAmbiguousPath, "this path may be taken for an MCP endpoint");
  }
  if (OverridesMethod(query)) {
    refusal = Error(ErrorCode::kMalformedRequest, "a call may not override its method or path");
  }
  // A question about a write is none, unless its tool names the method; enforce never sends it.
  if (match.tool != nullptr && (head_.method == "HEAD" || head_.method == "OPTIONS") &&
      std::ranges::find(match.tool->methods, head_.method) == match.tool->methods.end()) {
    match.effect = Effect::kRead;
  }
  record_.backend = match.backend;
  record_.tool = match.tool;
  if (match.tool == nullptr) worker_.unlisted.Count(backend, match.effect, head_.method, path);
  record_.effect = match.effect == Effect::kRead ? "read" : "write";
  // What is no read for HTTP is never sent twice, and never on a connection that may be dying.
  sends_once_ = match.effect == Effect::kWrite || !IsReadMethod(head_.method);
  if (match.effect == Effect::kWrite) StartObservation(match, query, refusal);
  match.path = path;  // as it came, not in its canonical form
  co_return co_await RelayRead(match, query);
}

// What it is, the body says, which is judged as it has passed.
Task<bool> Session::ServeObservedMcp(const Backend& backend, std::string_view query) {
  RouteMatch match;
  match.backend = &backend;
  match.path = backend.mcp_path;
  const bool is_message = head_.method == "POST";
  match.effect = is_message ? Effect::kWrite : Effect::kRead;
  match.unlisted = view_->policy->unlisted_writes;
  record_.backend = &backend;
  record_.effect = is_message ? "write" : "read";
  sends_once_ = !IsReadMethod(head_.method);
  if (is_message) StartObservation(match, query, std::nullopt);
  judges_body_ = observed_ != nullptr;
  co_return co_await RelayRead(match, query);
}

void Session::ObserveRequest(const BodyDecoder::Piece& piece) {
  observed_->TakeRequest(piece);
  if (judges_body_ && piece.end == BodyDecoder::End::kComplete) JudgeObservedMcp();
}

void Session::StartObservation(const RouteMatch& match, std::string_view query,
                               const std::optional<Error>& refusal) {
  observed_ = Observation::Start(worker_, view_, Payer());
  if (!observed_) return;
  RequestContext& context = observed_->context();
  const bool listed = match.tool != nullptr;
  FillContext(match, query, listed || match.unlisted == UnlistedRule::kGuard, context);
  if (auto trace = ParseTraceparent(head_.traceparent)) context.trace = std::move(*trace);
  if (refusal) {
    observed_->Refuse(*refusal);
  } else if (head_.body == BodyKind::kLength && head_.content_length > limits::kWriteBodyBytesMax) {
    observed_->Refuse(
        Error(ErrorCode::kRequestTooLarge, "the body of a write may have at most 8 MiB"));
  }
}

}  // namespace recourse
