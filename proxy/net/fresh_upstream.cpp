#include "proxy/net/fresh_upstream.h"

#include <algorithm>

#include "proxy/base/crash_point.h"
#include "proxy/net/response_reader.h"

namespace recourse {
namespace {

constexpr std::size_t kHeadRoom = limits::kHeadBytesMax + 4 * 1024;

// What the connecting task and the connection's owner share; whoever ends last frees it.
struct Opening {
  Promise<Result<std::unique_ptr<Connection>>> done;
};

Task<void> RunConnect(IoThread& thread, Backend backend, const OwnListeners& own,
                      std::shared_ptr<Opening> opening) {
  auto connected = co_await Connect(thread, backend, own);
  opening->done.Set(std::move(connected));
}

// The whole head of a write request: end-to-end fields as they came, then ours, then framing.
bool RenderHead(const HttpRequest& request, const Backend& backend, std::string_view via,
                std::string& out) {
  out.resize(kHeadRoom);
  HeadWriter writer(out.data(), out.size());
  writer.StartRequest(request.method, request.target);
  writer.Add("Host", backend.authority);
  for (const auto& [name, value] : request.headers) writer.Add(name, value);
  writer.Add("Via", via);
  const bool has_body_semantics = request.method != "GET" && request.method != "HEAD";
  if (!request.body.empty() || has_body_semantics) writer.ContentLength(request.body.size());
  writer.ConnectionClose();
  writer.End();
  out.resize(writer.view().size());
  return writer.ok();
}

// The end-to-end part of an answer's head.
void TakeHead(const Head& head, HttpResponse& response) {
  response.status = head.status;
  response.reason = std::string(head.reason);
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.hop || field.id == FieldId::kContentLength || field.id == FieldId::kRecourseOwn ||
        field.id == FieldId::kAccelRedirect) {
      continue;
    }
    response.headers.emplace_back(field.name, field.value);
  }
}

class FreshConnection final : public UpstreamConnection {
 public:
  FreshConnection(IoThread& thread, const Backend& backend, const OwnListeners& own,
                  std::string_view via)
      : thread_(thread), backend_(backend), via_(via), opening_(std::make_shared<Opening>()) {
    Spawn(RunConnect(thread, backend, own, opening_), [] {});
  }

  Task<Result<void>> Connected() override {
    if (connection_ == nullptr) {
      auto connected = co_await opening_->done.Wait();
      if (!connected) co_return std::unexpected(connected.error());
      connection_ = std::move(*connected);
    }
    co_return Result<void>();
  }

  std::string_view Peer() const override { return connection_->peer; }
  void GiveBodyTo(BodySink* sink) override { sink_ = sink; }

  Task<Result<Answer>> Exchange(const HttpRequest& request, MonoTime deadline,
                                std::size_t answer_bytes_max) override;

 private:
  bool HasLeft();
  Task<bool> Send(std::string_view head, std::string_view body);

  IoThread& thread_;
  const Backend backend_;  // a copy: policies may be replaced while this runs
  const std::string via_;
  std::shared_ptr<Opening> opening_;
  std::unique_ptr<Connection> connection_;
  bool accepted_any_ = false;  // the kernel took at least one byte
  BodySink* sink_ = nullptr;
};

// What the backend did before it was asked: nothing of the request has left, so this is no guess
// (http.md c.7, D1). What it said cannot be the answer.
bool FreshConnection::HasLeft() {
  if (connection_->tls != nullptr) return connection_->tls->Peek().want == TlsWant::kNothing;
  char byte;
  const ssize_t got =
      ::recv(connection_->socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

Task<bool> FreshConnection::Send(std::string_view head, std::string_view body) {
  if (RC_CRASH_POINT_ARMED("k06")) {
    if (!co_await WriteAll(*connection_, {head.substr(0, 1)})) co_return false;
    accepted_any_ = true;
    RC_CRASH_POINT("k06");
    head.remove_prefix(1);
  }
  auto write = WriteAll(*connection_, {head, body});
  const bool sent = co_await write;
  accepted_any_ = accepted_any_ || sent || write.written > 0 ||
                  (connection_->tls != nullptr && connection_->tls->sending());
  RC_CRASH_POINT("k07");
  co_return sent;
}

Task<void> SendThenReport(Task<bool> send, Promise<bool>& done) {
  const bool sent = co_await std::move(send);
  done.Set(sent);
}

Task<Result<Answer>> FreshConnection::Exchange(const HttpRequest& request, MonoTime deadline,
                                               std::size_t answer_bytes_max) {
  RC_CHECK(connection_ != nullptr);
  std::string head_bytes;
  if (!RenderHead(request, backend_, via_, head_bytes)) {
    co_return std::unexpected(
        Error(ErrorCode::kHeaderTooLarge, "the request's head cannot be sent", Delivery::kNotSent));
  }
  if (HasLeft()) {
    if (connection_->tls != nullptr && connection_->tls->refused_by_peer()) {
      co_return std::unexpected(connection_->tls->HandshakeError());
    }
    // Not kNotSent, which is tried again at once: that attempt may end in a doubt.
    co_return std::unexpected(Error(ErrorCode::kBackendReset,
                                    "the backend closed, or spoke, before it was asked anything",
                                    Delivery::kNotSent));
  }
  connection_->deadline.Arm(deadline);
  // The answer may come before the request is fully sent (C5): send and read at the same time.
  Promise<bool> sent;
  Spawn(SendThenReport(Send(head_bytes, request.body), sent), [] {});
  if (sent.is_set() && !accepted_any_) {
    co_return std::unexpected(
        Error(ErrorCode::kNotSent, "the connection broke before it was used", Delivery::kNotSent));
  }
  ReadBuffer buffer{thread_.buffers().Take()};
  Head head;
  bool saw_bytes = false;
  auto read = co_await ReadResponseHead(*connection_, buffer, request.method, head, &saw_bytes,
                                        Interim::kSkip);
  Answer answer;
  if (read) {
    RC_CRASH_POINT("k08");
    TakeHead(head, answer.response);
    buffer.begin += head.size;
    if (sink_ != nullptr) {
      co_await ReadBodyInto(*sink_, *connection_, buffer, head, answer);
    } else {
      co_await ReadBody(*connection_, buffer, head, answer_bytes_max, answer);
    }
    if (connection_->tls != nullptr && answer.body_complete) connection_->tls->SayGoodbye();
  }
  // Closing ends a send that is still pending: it never outlives this frame, and what the kernel
  // took of it is known only then.
  connection_->Close();
  co_await sent.Wait();
  if (read) co_return answer;
  if (!saw_bytes && connection_->tls != nullptr && connection_->tls->refused_by_peer()) {
    co_return std::unexpected(connection_->tls->HandshakeError());
  }
  co_return std::unexpected(Error(read.error().code(), read.error().detail(),
                                  accepted_any_ ? Delivery::kUncertain : Delivery::kNotSent));
}

}  // namespace

std::unique_ptr<UpstreamConnection> FreshUpstream::Open(const Backend& backend) {
  return std::make_unique<FreshConnection>(thread_, backend, own_, via_);
}

}  // namespace recourse
