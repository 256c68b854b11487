#include "proxy/server/session.h"

#include <algorithm>
#include <cstring>

#include "filters/answers.h"
#include "policy/path.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/log.h"

namespace recourse {
namespace {

// Tunnels are not served here; the others reflect or expose what a server got (bad-inputs M26).
bool IsRefusedMethod(std::string_view method) {
  return method == "CONNECT" || method == "TRACE" || method == "TRACK" || method == "DEBUG";
}

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool SeesOwnVia(const Head& head, std::string_view via) {
  const std::string_view pseudonym = via.substr(via.find(' ') + 1);
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id == FieldId::kVia && field.value.find(pseudonym) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

bool HasField(const Head& head, FieldId id) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (head.fields[i].id == id) return true;
  }
  return false;
}

}  // namespace

Session::Session(Worker& worker, TcpSocket socket)
    : worker_(worker),
      services_(worker.services),
      client_(std::move(socket), worker.thread.wheel(), worker.thread.frames()) {}

Task<void> Session::Run() {
  RC_CRASH_POINT("k01");
  while (co_await ReadHead()) {
    ++services_.busy;
    BeginRecord();
    const bool keep = co_await Serve();
    EndRecord();
    --services_.busy;
    if (!keep || services_.draining || ++served_ >= limits::kRequestsPerConnectionMax) break;
  }
  if (linger_) co_await Linger();
  client_.Close();
}

void Session::Drain() {
  if (!idle_) return;
  IoError ignored;
  client_.socket.cancel(ignored);
}

Task<bool> Session::ReadHead() {
  bool idle = in_.begin == in_.end;
  if (!idle) client_.deadline.Arm(Now() + limits::kHeadTimeout);
  for (;;) {
    if (in_.begin != in_.end) {
      const ParseResult parsed = ParseRequestHead(in_.unread(), head_);
      if (parsed.state == ParseState::kComplete) {
        client_.deadline.Disarm();
        co_return true;
      }
      if (parsed.state == ParseState::kBad) {
        BeginRecord();
        services_.metrics->parse_errors
            .Add({{"side", "client"}, {"reason", std::string(FactsOf(parsed.error.code()).slug)}})
            .Increment();
        co_await Refuse(parsed.error.code(), std::string(parsed.error.detail()));
        EndRecord();
        co_return false;
      }
    }
    if (!co_await ReadMoreHead(&idle)) co_return false;
  }
}

// Waits for bytes of a head. An idle connection holds no buffer (performance.md G1).
Task<bool> Session::ReadMoreHead(bool* idle) {
  if (*idle) {
    if (services_.draining) co_return false;
    client_.deadline.Arm(Now() + limits::kClientIdleTimeout);
    if (!in_.memory) in_.memory = worker_.thread.buffers().Take();
    std::size_t size = co_await ReadNow(client_, in_.free_space(), in_.free_size());
    while (size == 0 && client_.error == boost::asio::error::would_block) {
      in_.memory.reset();
      if (services_.draining) co_return false;
      idle_ = true;
      const bool readable = co_await WaitReadable(client_);
      idle_ = false;
      if (!readable) co_return false;
      in_.memory = worker_.thread.buffers().Take();
      size = co_await ReadNow(client_, in_.free_space(), in_.free_size());
    }
    in_.end += size;
    *idle = false;
    client_.deadline.Arm(Now() + limits::kHeadTimeout);
    co_return size > 0;
  }
  if (in_.free_size() == 0) in_.Compact();
  RC_CHECK(in_.free_size() > 0);  // the parser refuses a head before it fills the buffer
  const std::size_t size = co_await ReadSome(client_, in_.free_space(), in_.free_size());
  in_.end += size;
  if (size == 0 && client_.deadline.expired()) {
    BeginRecord();
    head_.Reset();
    co_await Refuse(ErrorCode::kRequestTimeout, "the request's head did not arrive in time");
    EndRecord();
  }
  co_return size > 0;
}

Task<bool> Session::Serve() {
  if (IsRefusedMethod(head_.method)) {
    linger_ = true;
    co_return co_await Refuse(ErrorCode::kMethodNotAllowed,
                              std::string(head_.method) + " is not served by this listener");
  }
  if (SeesOwnVia(head_, services_.via)) {
    co_return co_await Refuse(ErrorCode::kLoop, "the request has already passed this proxy");
  }
  if (head_.form != TargetForm::kOrigin && head_.form != TargetForm::kAbsolute) {
    co_return co_await Refuse(ErrorCode::kMalformedRequest,
                              "the target must be a path that begins with '/'");
  }
  // An absolute target's authority wins over Host (RFC 9112 3.2.2).
  const std::string_view authority =
      head_.form == TargetForm::kAbsolute ? head_.authority : head_.host;
  const auto question = head_.path.find('?');
  const std::string_view query =
      question == std::string_view::npos ? std::string_view() : head_.path.substr(question);
  co_return co_await Route(authority, head_.path.substr(0, question), query);
}

Task<bool> Session::Route(std::string_view authority, std::string_view path,
                          std::string_view query) {
  const Policy& policy = *services_.policy;
  const Backend* const backend = policy.routes->FindBackend(authority, 80);
  if (backend == nullptr) {
    co_return co_await Refuse(ErrorCode::kUnknownBackend,
                              "no backend of the policy has the authority '" +
                                  std::string(authority) + "'; add it to a backend's url or hosts");
  }
  record_.backend = backend;
  auto match = policy.routes->Match(*backend, head_.method, path, scratch_);
  if (!match) {
    co_return co_await Refuse(match.error().code(), std::string(match.error().detail()));
  }
  record_.tool = match->tool;
  // The backend might take another method than the one that the policy judged (M01, P37).
  if (HasField(head_, FieldId::kMethodOverride) || HasMethodOverride(query)) {
    co_return co_await Refuse(ErrorCode::kMalformedRequest, "a call may not override its method");
  }
  const bool listed = match->tool != nullptr;
  if (!listed && match->unlisted == UnlistedRule::kDeny) {
    co_return co_await Refuse(ErrorCode::kDenied,
                              "no tool of the policy matches this call, and "
                              "unlisted calls are denied");
  }
  if (match->effect == Effect::kRead) {
    record_.effect = "read";
    co_return co_await RelayRead(*match, query);
  }
  record_.effect = "write";
  co_return co_await ServeWrite(*match, query, listed || match->unlisted == UnlistedRule::kGuard);
}

Task<bool> Session::Refuse(ErrorCode code, std::string detail) {
  record_.error = FactsOf(code).slug;
  const WriteAnswer problem = MakeProblem(code, std::move(detail));
  // An unread body would be taken for the next request: close instead of guessing.
  const bool readable = record_.method[0] != '\0' && head_.body == BodyKind::kNone;
  const bool keep = readable && !linger_ && head_.keep_alive &&
                    code != ErrorCode::kMalformedRequest && code != ErrorCode::kLoop;
  if (keep) in_.Consume(head_.size);
  if (!keep) linger_ = true;
  client_.deadline.Arm(Now() + limits::kClientWriteTimeout);
  co_return co_await SendAnswer(problem.response, keep);
}

Task<bool> Session::Continue100() {
  client_.deadline.Arm(Now() + limits::kClientWriteTimeout);
  co_return co_await WriteAll(client_, {"HTTP/1.1 100 Continue\r\n\r\n"});
}

Task<bool> Session::SendAnswer(const HttpResponse& response, bool keep) {
  keep = keep && !services_.draining;
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
  const bool head_request = std::string_view(record_.method) == "HEAD";
  std::string_view body = has_body && !head_request ? response.body : std::string_view();
  std::string_view head = writer.view();
  if (record_.effect == "write" && RC_CRASH_POINT_ARMED("k13")) {
    const std::string_view half = head.substr(0, head.size() / 2);
    if (!co_await WriteAll(client_, {half})) co_return false;
    RC_CRASH_POINT("k13");
    head.remove_prefix(half.size());
  }
  const bool sent = co_await WriteAll(client_, {head, body});
  record_.bytes_out += head.size() + body.size();
  record_.client_gone = record_.client_gone || !sent;
  client_.deadline.Disarm();
  co_return sent&& keep;
}

Session::Peer Session::LookAtClient() {
  char byte;
  const ssize_t got = ::recv(client_.socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0) return Peer::kClosed;
  const bool nothing_yet = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  return got > 0 || nothing_yet ? Peer::kThere : Peer::kReset;
}

Task<void> Session::Linger() {
  IoError ignored;
  client_.socket.shutdown(TcpSocket::shutdown_send, ignored);
  client_.deadline.Arm(Now() + limits::kLingerTimeout);
  if (!in_.memory) in_.memory = worker_.thread.buffers().Take();
  std::size_t drained = 0;
  while (drained < limits::kRelayBufferBytes) {
    const std::size_t size =
        co_await ReadSome(client_, in_.memory.get(), limits::kRelayBufferBytes);
    if (size == 0) break;
    drained += size;
  }
}

void Session::BeginRecord() {
  started_ = Now();
  record_ = RequestRecord{};
  const std::size_t size = std::min(head_.method.size(), limits::kMethodBytesMax);
  if (size > 0) std::memcpy(record_.method, head_.method.data(), size);
  if (head_.traceparent.size() >= 55 && IsHex(head_.traceparent.substr(3, 32))) {
    std::memcpy(record_.trace_id, head_.traceparent.data() + 3, 32);
  }
}

void Session::EndRecord() {
  const auto duration = Now() - started_;
  worker_.metrics.Count(record_.tool, record_.method, record_.status,
                        std::chrono::duration<double>(duration).count());
  worker_.log.Append(record_, duration);
}

}  // namespace recourse
