// What a session says by itself, and how an answer that is here whole goes out.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "filters/call/answers.h"
#include "filters/call/poll_id.h"
#include "filters/key/event_answer.h"
#include "filters/ledger/rules/begin_decision.h"
#include "proxy/admin/access/problem.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/log/log.h"
#include "proxy/exchange/poll_answer.h"
#include "proxy/exchange/request_head.h"
#include "proxy/exchange/session.h"

namespace recourse {
namespace {

// RFC 9110 11.6.1: a 401 names a scheme.
std::string ChallengeOf(const CallersRule& rule) {
  return rule.jwt && EqualsIgnoreCase(rule.jwt->field, "authorization") ? "Bearer" : "Recourse";
}

}  // namespace

// What it was told under fewer words of `callers`, too.
std::optional<std::uint64_t> Session::ReadPoll(const std::string& id) const {
  auto operation = ReadPollId(services_.ledger_secret, id, caller_);
  if (!view_->policy->callers.names_any()) return operation;
  for (const Caller::Earlier& earlier : who_.earlier) {
    if (!operation) operation = ReadPollId(services_.ledger_secret, id, earlier.name);
  }
  return operation;
}

// An agent asks what became of a call of its own. Its name is all that it takes, and it decides
// nothing; whatever else is wrong with it, it looks as if there were none.
Task<bool> Session::ServePoll(std::string id) {
  if (head_.method != "GET" && head_.method != "HEAD") {
    co_return co_await Refuse(ErrorCode::kMethodNotAllowed,
                              "what became of a call can only be asked, with GET", "GET, HEAD");
  }
  if (std::string why = WhyNobody(); !why.empty()) {
    co_return co_await Refuse(ErrorCode::kCallerUnknown, std::move(why));
  }
  const auto operation = ReadPoll(id);
  Result<Event> event = std::unexpected(Error(ErrorCode::kInternal));
  if (operation) event = co_await services_.ledger->Read(*operation, worker_.thread);
  if (!event || !event->approval) {
    if (operation && !event && event.error().code() != ErrorCode::kInternal) {
      co_return co_await Refuse(event.error().code(), std::string(event.error().detail()));
    }
    co_return co_await AnswerHere(
        Problem(404, "No such call", "no call of yours that waited for approval has this name"),
        /*understood=*/true);
  }
  const auto question = head_.path.find('?');
  const Principal asks = PrincipalOf(
      HmacKey(services_.install_secret), caller_, view_->policy->principal, EndToEndFields(head_),
      question == std::string_view::npos ? Pairs() : ParsePairs(head_.path.substr(question + 1)),
      who_.verified_field);
  const bool may_see = MayBeShown(asks, event->principal);
  const HttpResponse answer = PollAnswer(*event, may_see);
  const bool kept = co_await AnswerHere(answer, /*understood=*/true);
  const bool is_told =
      may_see && event->answer_kept && IsFinalWord(*event) && head_.method == "GET";
  if (is_told && !record_.client_gone && co_await HasTaken()) {
    MarkAnswered({*operation, event->attempt});
  }
  co_return kept;
}

Task<bool> Session::Refuse(ErrorCode code, std::string detail, std::string allow) {
  record_.error = FactsOf(code).slug;
  WriteAnswer problem = MakeProblem(code, std::move(detail));
  if (code == ErrorCode::kCallerUnknown) {
    problem.response.headers.emplace_back("WWW-Authenticate", ChallengeOf(view_->policy->callers));
  }
  if (!allow.empty()) problem.response.headers.emplace_back("Allow", std::move(allow));
  co_return co_await AnswerHere(problem.response, !EndsConnection(code));
}

// Said by us alone, so that no effect of a backend hangs on it.
Task<bool> Session::AnswerOptions(std::string allow) {
  HttpResponse response;
  response.status = 204;
  response.reason = "No Content";
  response.headers.emplace_back("Allow", std::move(allow));
  co_return co_await AnswerHere(response, /*understood=*/true);
}

Task<bool> Session::AnswerHere(const HttpResponse& response, bool understood) {
  // An unread body would be taken for the next request: close instead of guessing.
  const bool readable = !record_.method.empty() && head_.body == BodyKind::kNone;
  const bool keep = readable && !linger_ && head_.keep_alive && understood;
  if (keep) in_.Consume(head_.size);
  if (!keep) linger_ = true;
  co_return co_await SendAnswer(response, keep);
}

Task<bool> Session::Continue100() {
  client_.deadline.Arm(Now() + services_.bounds.send_timeout);
  const bool sent = co_await WriteAll(client_, {"HTTP/1.1 100 Continue\r\n\r\n"});
  client_.deadline.Disarm();
  record_.client_gone = cut_ = !sent;
  co_return sent;
}

Task<bool> Session::SendAnswer(const HttpResponse& response, bool keep) {
  keep = keep && !IsLast();
  auto memory = worker_.thread.buffers().Take();
  HeadWriter writer(memory.get(), limits::kRelayBufferBytes);
  writer.StartResponse(response.status, response.reason);
  for (const auto& [name, value] : response.headers) writer.Add(name, value);
  const bool has_body = response.status != 204 && response.status != 304;
  if (has_body) writer.ContentLength(response.body.size());
  if (!keep) writer.ConnectionClose();
  writer.End();
  if (!writer.ok()) {
    Log(LogLevel::kError, "an answer's head cannot be written; closing the connection");
    co_return false;
  }
  record_.status = response.status;
  const bool head_request = record_.method.view() == "HEAD";
  std::string_view body = has_body && !head_request ? response.body : std::string_view();
  std::string_view head = writer.view();
  // A large answer has time for its size, but not for ever: the answer of a write holds its place.
  LimitTaking(services_.bounds.send_timeout +
              Millis(body.size() / limits::kAnswerBytesPerMilliMin));
  if (record_.effect == "write" && RC_CRASH_POINT_ARMED("k13")) {
    const std::string_view half = head.substr(0, head.size() / 2);
    if (!co_await WriteAll(client_, {half})) co_return false;
    RC_CRASH_POINT("k13");
    head.remove_prefix(half.size());
  }
  const bool sent = co_await WriteAll(client_, {head, body});
  record_.bytes_out += head.size() + body.size();
  record_.client_gone = record_.client_gone || !sent;
  EndTaking();
  co_return sent&& keep;
}

void Session::LimitTaking(Millis most) {
  take_due_ = Now() + most;
  LimitClient();
}

void Session::EndTaking() {
  take_due_ = kNotDue;
  LimitClient();
}

void Session::LimitClient() {
  const MonoTime due = std::min(body_due_, take_due_);
  if (due == kNotDue) return client_.deadline.Disarm();
  client_.deadline.Arm(due);
}

Session::Peer Session::LookAtClient() {
  if (client_.tls != nullptr) {
    const TlsStep step = client_.PeekTls();
    if (!step.error) return step.size > 0 ? Peer::kSpeaks : Peer::kSilent;
    return step.error == boost::asio::error::eof ? Peer::kClosed : Peer::kReset;
  }
  char byte;
  const ssize_t got = ::recv(client_.socket(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0) return Peer::kClosed;
  if (got > 0) return Peer::kSpeaks;
  return errno == EAGAIN || errno == EWOULDBLOCK ? Peer::kSilent : Peer::kReset;
}

bool Session::HasHungUp(int how) const {
  pollfd socket{const_cast<Connection&>(client_).socket(), POLLRDHUP, 0};
  return ::poll(&socket, 1, 0) > 0 && (socket.revents & how) != 0;
}

// Of a client that has closed its side only its kernel tells whether anybody still reads: what
// comes for somebody it acknowledges, all else it answers with a reset.
Task<bool> Session::HasTaken() {
  const MonoTime end = Now() + limits::kHalfClosedTaking;
  for (Millis pause{1}; MayHaveLeft(); pause *= 2) {
    if (HasLeft()) co_return false;
    int unacknowledged = 0;
    if (::ioctl(client_.socket(), SIOCOUTQ, &unacknowledged) != 0) co_return false;
    if (unacknowledged == 0) co_return true;
    const MonoTime next = Now() + pause;
    if (next >= end) co_return false;
    co_await worker_.thread.SleepUntil(next);
  }
  co_return true;
}

// A kernel acknowledges for a client that dies before it reads. What it has of an answer then it
// answers with a reset, where one that has read all ends with a FIN or asks for more: a reset takes
// the mark back, so that who is started anew in its place gets the answer. Waiting with the mark
// instead would take the next equal call of a living client for a retry.
void Session::MarkAnswered(AttemptId answered) {
  services_.ledger->MarkAnswered(answered);
  unread_ = answered;
}

void Session::ShowCut() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(client_.socket(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

Task<void> Session::Linger() {
  ::shutdown(client_.socket(), SHUT_WR);
  client_.deadline.Arm(Now() + limits::kLingerTimeout);
  if (!in_.memory) in_.memory = worker_.thread.buffers().Take();
  std::size_t drained = 0;
  while (drained < limits::kLingerBytesMax) {
    const std::size_t size =
        co_await ReadSome(client_, in_.memory.get(), limits::kRelayBufferBytes);
    if (size == 0) break;
    drained += size;
  }
}

}  // namespace recourse
