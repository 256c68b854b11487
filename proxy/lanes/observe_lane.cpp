// Observe mode: every call goes on as it came. Calls that enforce would take for writes are
// observed beside the stream; nothing is refused here that can be forwarded.
#include "filters/call/traceparent.h"
#include "proxy/base/http/http_message.h"
#include "proxy/exchange/head_judgement.h"
#include "proxy/exchange/observation.h"
#include "proxy/exchange/session.h"

namespace recourse {
Task<bool> Session::ServeObserved(McpPlace place, std::string_view path, std::string_view query) {
  const Backend& backend = *place.backend;
  if (place.where == McpPath::kExact) co_return co_await ServeObservedMcp(backend, query);
  const Policy& policy = *view_->policy;
  const auto found = policy.routes->Match(backend, head_.method, path, scratch_, match_);
  auto refusal = RefusalOfHead(policy, head_, place, query, found, match_);
  if (!found) {
    match_ = RouteMatch();
    match_.backend = &backend;
    match_.path = match_.sent = path;
    match_.effect = IsReadMethod(head_.method) ? Effect::kRead : Effect::kWrite;
  }
  // A question about a write is none, unless its tool names the method; enforce never sends it.
  if (IsQuestionAboutWrite(head_, match_)) match_.effect = Effect::kRead;
  record_.backend = match_.backend;
  record_.tool = match_.tool;
  if (match_.tool == nullptr) worker_.unlisted.Count(backend, match_.effect, head_.method, path);
  record_.effect = match_.effect == Effect::kRead ? "read" : "write";
  // What is no read for HTTP is never sent twice, and never on a connection that may be dying.
  sends_once_ = match_.effect == Effect::kWrite || !IsReadMethod(head_.method);
  const bool is_guarded = match_.tool != nullptr || match_.unlisted == UnlistedRule::kGuard;
  if (std::string why = WhyNobody();
      !refusal && match_.effect == Effect::kWrite && is_guarded && !why.empty()) {
    refusal = CallRefusal(ErrorCode::kCallerUnknown, std::move(why));
  }
  if (match_.effect == Effect::kWrite) StartObservation(match_, query, refusal);
  if (refusal && !observed_) NoteRefusal(path, *refusal);
  match_.sent = path;  // as it came
  co_return co_await RelayRead(match_, query);
}

// What it is, the body says, which is judged as it has passed.
Task<bool> Session::ServeObservedMcp(const Backend& backend, std::string_view query) {
  RouteMatch match;
  match.backend = &backend;
  match.path = match.sent = backend.mcp_path;
  const bool is_message = head_.method == "POST";
  match.effect = is_message ? Effect::kWrite : Effect::kRead;
  match.unlisted = view_->policy->unlisted_writes;
  record_.backend = &backend;
  record_.effect = is_message ? "write" : "read";
  sends_once_ = !IsReadMethod(head_.method);
  const auto refusal = RefusalAtEndpoint(*view_->policy, head_, query);
  if (is_message) StartObservation(match, query, refusal);
  if (refusal && !observed_) NoteRefusal(match.path, *refusal);
  judges_body_ = observed_ != nullptr;
  co_return co_await RelayRead(match, query);
}

void Session::ObserveRequest(const BodyDecoder::Piece& piece) {
  observed_->TakeRequest(piece);
  if (judges_body_ && piece.end == BodyDecoder::End::kComplete) JudgeObservedMcp();
}

void Session::NoteRefusal(std::string_view path, const CallRefusal& refusal) {
  const bool is_read = record_.effect == "read";
  record_.verdict = NameOf(ObserveVerdict::kWouldRefuse);
  record_.reason = std::string(FactsOf(refusal.code()).slug) + ": " + refusal.detail();
  worker_.refused.Count(*record_.backend, is_read ? Effect::kRead : Effect::kWrite,
                        record_.method.view(), path, record_.reason);
  services_.metrics->CountRefusalToCome(record_.effect, record_.reason);
}

// Of a form that streams by: enforce would have cut it off there.
void Session::NoteFormOverride(std::string_view reason) {
  const CallRefusal refusal(ErrorCode::kMalformedRequest, std::string(reason));
  if (observed_) {
    observed_->Refuse(refusal);
  } else if (record_.reason.empty()) {
    // The head that the path is of may be read over.
    NoteRefusal(record_.tool != nullptr ? record_.tool->patterns.front() : "/", refusal);
  }
}

void Session::StartObservation(const RouteMatch& match, std::string_view query,
                               const std::optional<CallRefusal>& refusal) {
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
        CallRefusal(ErrorCode::kRequestTooLarge, "the body of a write may have at most 8 MiB"));
  }
}

}  // namespace recourse
