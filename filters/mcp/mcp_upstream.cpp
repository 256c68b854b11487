#include "filters/mcp/mcp_upstream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "filters/mcp/message_sink.h"
#include "filters/mcp/own_request.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

constexpr std::string_view kNoFinalMessage = "the server's answer ended without its final message";
constexpr std::string_view kNotInTime = "the server's final message did not come in time";

Error Lost(ErrorCode code, std::string_view detail) {
  return Error(code, detail, Delivery::kUncertain);
}

// The call of the server that `request` is; nullopt: it is something else.
std::optional<McpRequest> CallOf(const Backend& backend, const HttpRequest& request) {
  if (request.method != "POST") return std::nullopt;
  if (request.target.substr(0, request.target.find('?')) != backend.endpoint) return std::nullopt;
  auto read = ReadMcpRequest(request.headers, request.body);
  if (!read || read->size() != 1 || read->front().id.empty()) return std::nullopt;
  return std::move(read->front());
}

// The answer with its message as the whole body.
Answer WithMessage(Answer answer, const FinalMessage& final) {
  static constexpr std::array<std::string_view, 7> kOfTheBody{
      "Content-Type", "Content-Encoding", "Content-Digest", "Digest", "Content-MD5",
      "ETag",         "X-Accel-Buffering"};
  std::erase_if(answer.response.headers, [](const Header& field) {
    return std::any_of(kOfTheBody.begin(), kOfTheBody.end(),
                       [&](std::string_view name) { return EqualsIgnoreCase(field.first, name); });
  });
  answer.response.headers.emplace_back("Content-Type", "application/json");
  answer.response.body = final.message;
  answer.message = final.kind;
  answer.body_complete = true;
  answer.until_close = false;
  return answer;
}

// What came instead of a message, of all that an Error can say.
std::string_view NoMessage(const HttpResponse& head) {
  if (head.status == 202) return "the server answered 202, which is no answer to a request";
  const std::string* const field = FindHeader(head.headers, "Content-Type");
  const std::string type = field == nullptr ? std::string() : ToLower(*field);
  if (type.starts_with("text/html")) {
    return "the server answered with text/html, which is not the message that was asked for";
  }
  if (type.starts_with("text/plain")) {
    return "the server answered with text/plain, which is not the message that was asked for";
  }
  if (type.starts_with("application/json")) {
    return "the server answered with JSON that is not the message that was asked for";
  }
  return "the server's answer is not the message that was asked for";
}

// What a whole answer comes to.
Result<Answer> Judge(const Codec& codec, Answer answer, MessageSink& sink) {
  answer.codec = &codec;
  if (sink.final()) return WithMessage(std::move(answer), *sink.final());
  const int status = answer.response.status;
  if (!IsSuccess(status)) {
    answer.over_cap = sink.is_over_cap();
    answer.response.body = std::move(sink.body());
    return answer;
  }
  if (sink.is_over_cap()) {
    return std::unexpected(
        Lost(ErrorCode::kBackendProtocol, "the server's answer is too large to be read"));
  }
  if (IsEventStream(answer.response) || (!answer.body_complete && !answer.until_close)) {
    return std::unexpected(Lost(ErrorCode::kBackendReset, kNoFinalMessage));
  }
  return std::unexpected(Lost(ErrorCode::kBackendProtocol, NoMessage(answer.response)));
}

class McpConnection final : public UpstreamConnection {
 public:
  McpConnection(const Codec& codec, const CodecParts& parts, std::shared_ptr<const Backend> backend,
                std::unique_ptr<UpstreamConnection> connection)
      : codec_(codec),
        parts_(parts),
        backend_(std::move(backend)),
        connection_(std::move(connection)) {}

  Task<Result<void>> Connected() override { return connection_->Connected(); }
  std::string_view Peer() const override { return connection_->Peer(); }
  bool IsReused() const override { return connection_->IsReused(); }
  void PassInterimTo(InterimSink* sink) override { interim_ = sink; }
  void MayOpenSession() override { is_own_ = true; }
  void KnowsMessageId(const std::string& id) override { id_ = id; }
  void HoldAnswerFor(CallKeeper* keeper) override {
    keeper_ = keeper;
    connection_->HoldAnswerFor(keeper);
  }
  void RelayAnswerTo(AnswerRelay* relay) override { connection_->RelayAnswerTo(relay); }
  void SendOnlyWith(SendPermit* permit) override {
    permit_ = permit;
    connection_->SendOnlyWith(permit);
  }
  void GiveBodyTo(BodySink* sink) override { connection_->GiveBodyTo(sink); }
  Task<Result<Answer>> Exchange(const HttpRequest& request, MonoTime deadline,
                                std::size_t answer_bytes_max) override;

 private:
  struct Bounds {
    MonoTime deadline{};
    std::size_t answer_bytes_max = 0;
  };

  Task<Result<Answer>> Ask(UpstreamConnection& connection, const HttpRequest& request,
                           std::string id, Bounds bounds);
  Task<Result<Answer>> Resume(const HttpRequest& request, MessageSink& sink, Answer first,
                              MonoTime deadline);
  // The same over a connection of its own.
  Task<Result<Answer>> AskAnew(const HttpRequest& request, std::string id, Bounds bounds);
  Task<Result<Answer>> AskInOwnSession(const HttpRequest& request, std::string id, Bounds bounds);
  Task<bool> Notify(HttpRequest request, MonoTime deadline);
  std::string NewId();

  const Codec& codec_;
  const CodecParts parts_;
  const std::shared_ptr<const Backend> backend_;
  const std::unique_ptr<UpstreamConnection> connection_;
  InterimSink* interim_ = nullptr;
  CallKeeper* keeper_ = nullptr;
  SendPermit* permit_ = nullptr;
  bool is_own_ = false;
  std::string id_;  // of the message; empty: nobody has read it
};

std::string McpConnection::NewId() {
  std::array<unsigned char, 8> raw{};
  parts_.random.Fill(raw);
  std::uint64_t number = 0;
  for (const unsigned char byte : raw) number = number << 8 | byte;
  return "\"recourse-" + std::to_string(number) + "\"";
}

Task<Result<Answer>> McpConnection::Exchange(const HttpRequest& request, MonoTime deadline,
                                             std::size_t answer_bytes_max) {
  const bool is_known = !id_.empty() && !is_own_;
  const std::optional<McpRequest> call = is_known ? std::nullopt : CallOf(*backend_, request);
  if (!call && !is_known) {
    co_return co_await connection_->Exchange(request, deadline, answer_bytes_max);
  }
  const Bounds bounds{deadline, answer_bytes_max};
  HttpRequest asked = request;
  // A compressed stream could not be read as it comes.
  SetHeader(asked.headers, "Accept-Encoding", "identity");
  if (!is_own_) co_return co_await Ask(*connection_, asked, is_known ? id_ : call->id, bounds);
  const std::string id = NewId();
  const HttpRequest own = OwnCall(std::move(asked), *call, id);
  Result<Answer> answer = co_await Ask(*connection_, own, id, bounds);
  if (call->era == McpEra::kLegacy && answer && IsSessionLost(*answer)) {
    co_return co_await AskInOwnSession(own, id, bounds);
  }
  co_return answer;
}

Task<Result<Answer>> McpConnection::Ask(UpstreamConnection& connection, const HttpRequest& request,
                                        std::string id, Bounds bounds) {
  MessageSink sink(std::move(id), interim_, bounds.answer_bytes_max);
  connection.GiveBodyTo(&sink);
  Result<Answer> answer =
      co_await connection.Exchange(request, bounds.deadline, bounds.answer_bytes_max);
  if (!answer) co_return answer;
  sink.End(answer->response);
  const bool is_stream = IsEventStream(answer->response);
  const int status = answer->response.status;
  if (!sink.final() && is_stream && status == 200 && !sink.is_over_cap()) {
    co_return co_await Resume(request, sink, std::move(*answer), bounds.deadline);
  }
  auto judged = Judge(codec_, std::move(*answer), sink);
  if (!judged && parts_.clock.Now() >= bounds.deadline) {
    co_return std::unexpected(Lost(ErrorCode::kBackendTimeout, kNotInTime));
  }
  co_return judged;
}

Task<Result<Answer>> McpConnection::Resume(const HttpRequest& request, MessageSink& sink,
                                           Answer first, MonoTime deadline) {
  const bool has_session = FindHeader(request.headers, "Mcp-Session-Id") != nullptr;
  for (int tries = 0; tries < limits::kResumesMax && has_session; ++tries) {
    if (sink.last_event_id().empty() || !IsFieldValue(sink.last_event_id())) break;
    const Millis pause =
        std::min(sink.retry().value_or(limits::kResumePause), Millis(limits::kResumePauseMax));
    const MonoTime next = parts_.clock.Now() + pause;
    if (next >= deadline) {
      co_return std::unexpected(Lost(ErrorCode::kBackendTimeout, kNotInTime));
    }
    if (pause > Millis(0)) co_await parts_.timer.SleepUntil(next);
    const auto connection = parts_.plain.Open(*backend_);
    const Result<void> connected = co_await connection->Connected();
    if (!connected) continue;
    sink.Restart();
    connection->HoldAnswerFor(keeper_);
    connection->GiveBodyTo(&sink);
    const HttpRequest get = ResumeRequest(request, sink.last_event_id());
    const auto answer = co_await connection->Exchange(get, deadline, 0);
    if (sink.final()) co_return Judge(codec_, std::move(first), sink);
    if (answer && !(answer->response.status == 200 && IsEventStream(answer->response))) break;
    if (!answer && answer.error().code() == ErrorCode::kBackendTimeout) {
      co_return std::unexpected(answer.error());
    }
  }
  co_return std::unexpected(Lost(ErrorCode::kBackendReset, kNoFinalMessage));
}

Task<Result<Answer>> McpConnection::AskAnew(const HttpRequest& request, std::string id,
                                            Bounds bounds) {
  const auto connection = parts_.plain.Open(*backend_);
  const Result<void> connected = co_await connection->Connected();
  if (!connected) co_return std::unexpected(connected.error());
  connection->HoldAnswerFor(keeper_);
  connection->SendOnlyWith(permit_);
  co_return co_await Ask(*connection, request, std::move(id), bounds);
}

Task<bool> McpConnection::Notify(HttpRequest request, MonoTime deadline) {
  const auto connection = parts_.plain.Open(*backend_);
  const Result<void> connected = co_await connection->Connected();
  if (!connected) co_return false;
  const auto answer =
      co_await connection->Exchange(request, deadline, limits::kProbeAnswerBytesMax);
  co_return answer.has_value() && IsSuccess(answer->response.status);
}

// The call itself was refused for want of a session, so that whatever fails before it is sent again
// fails with nothing executed.
Task<Result<Answer>> McpConnection::AskInOwnSession(const HttpRequest& request, std::string id,
                                                    Bounds bounds) {
  const auto not_sent = [](std::string_view why) {
    return std::unexpected(Error(ErrorCode::kNotSent, why, Delivery::kNotSent));
  };
  const std::string first_id = NewId();
  const HttpRequest initialize = InitializeRequest(request, first_id);
  const auto opened = co_await AskAnew(initialize, first_id, bounds);
  if (!opened || opened->message != MessageKind::kResult) {
    co_return not_sent("the session of the call is gone, and the server opens no other");
  }
  const HttpRequest call = InSession(request, *opened);
  if (!co_await Notify(InitializedRequest(call), bounds.deadline)) {
    co_return not_sent("the session of the call is gone, and another one was not taken");
  }
  auto answer = co_await AskAnew(call, std::move(id), bounds);
  if (FindHeader(call.headers, "Mcp-Session-Id") != nullptr) {
    // Politeness only: the answer waits for it no longer than that.
    (void)co_await Notify(EndSessionRequest(call), parts_.clock.Now() + limits::kSessionEndTimeout);
  }
  co_return answer;
}

}  // namespace

Result<Answer> ReadRecordedMcp(const Codec& codec, Answer recorded, const HttpRequest& call) {
  const auto read = ReadMcpRequest(call.headers, call.body);
  if (!read || read->size() != 1) return recorded;
  MessageSink sink(read->front().id, nullptr, limits::kAnswerBytesMax);
  sink.TakeWhole(recorded.response, std::exchange(recorded.response.body, {}));
  return Judge(codec, std::move(recorded), sink);
}

std::unique_ptr<UpstreamConnection> OverMcp(const Codec& codec, const CodecParts& parts,
                                            std::shared_ptr<const Backend> backend,
                                            std::unique_ptr<UpstreamConnection> plain) {
  return std::make_unique<McpConnection>(codec, parts, std::move(backend), std::move(plain));
}

}  // namespace recourse
