#include "proxy/net/upstream/write_client.h"

#include <algorithm>

#include "proxy/base/crash_point.h"
#include "proxy/base/lease_limits.h"
#include "proxy/net/message/response_reader.h"

namespace recourse {
namespace {

// Room for the request line, and for the fields that are ours.
constexpr std::size_t kOwnHeadBytes = 512;
// Fields that an answer gets from us before it goes to the agent.
constexpr std::size_t kOwnFields = 6;

// What the connecting task and the call share; whoever ends last frees it.
struct Opening {
  Opening(std::shared_ptr<const Backend> to, std::unique_ptr<UpstreamStream> with)
      : backend(std::move(to)), stream(std::move(with)) {}
  const std::shared_ptr<const Backend> backend;
  std::unique_ptr<UpstreamStream> stream;
  Promise<Result<void>> done;
};

Task<void> RunConnect(std::shared_ptr<Opening> opening) {
  auto connected = co_await opening->stream->Connected(MonoTime::max());
  opening->done.Set(std::move(connected));
}

// The whole head of a write request: end-to-end fields as they came, those `added` in their place,
// then ours, then framing.
bool RenderHead(const HttpRequest& request, const Headers& added, const Backend& backend,
                std::string_view via, bool is_last, std::string& out) {
  std::size_t room = kOwnHeadBytes + request.method.size() + request.target.size() +
                     backend.authority.size() + via.size();
  for (const Headers* fields : {&request.headers, &added}) {
    for (const auto& [name, value] : *fields) room += name.size() + value.size() + 4;
  }
  out.resize(std::min(room, limits::kHeadBytesMax + 4 * 1024));
  HeadWriter writer(out.data(), out.size());
  writer.StartRequest(request.method, request.target);
  writer.Add("Host", backend.authority);
  for (const auto& [name, value] : request.headers) {
    if (FindHeader(added, name) == nullptr) writer.Add(name, value);
  }
  for (const auto& [name, value] : added) writer.Add(name, value);
  writer.Add("Via", via);
  const bool has_body_semantics = request.method != "GET" && request.method != "HEAD";
  if (!request.body.empty() || has_body_semantics) writer.ContentLength(request.body.size());
  if (is_last) writer.ConnectionClose();
  writer.End();
  out.resize(writer.view().size());
  return writer.ok();
}

// The end-to-end part of an answer's head.
void TakeHead(const Head& head, HttpResponse& response) {
  response.status = head.status;
  response.reason = std::string(head.reason);
  response.headers.reserve(head.field_count + kOwnFields);
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.hop || field.id == FieldId::kContentLength || field.id == FieldId::kRecourseOwn ||
        field.id == FieldId::kAccelRedirect) {
      continue;
    }
    response.headers.emplace_back(field.name, field.value);
  }
}

// How long a connection may be kept after an answer with this head; zero: not at all.
Millis KeepFor(const Head& head) {
  if (!head.keep_alive || head.body == BodyKind::kUntilClose) return Millis{0};
  if (head.keep_alive_timeout_s < 0) return limits::kWriteReuseIdle;
  // A second before the backend closes it.
  return std::min<Millis>(limits::kWriteReuseIdle,
                          std::chrono::seconds(head.keep_alive_timeout_s - 1));
}

Task<void> SendThenReport(Task<bool> send, Promise<bool>& done) {
  const bool sent = co_await std::move(send);
  done.Set(sent);
}

}  // namespace

class WriteUpstream::Call final : public UpstreamConnection {
 public:
  // With `reuses` it may go on a kept connection, and be kept.
  Call(WriteUpstream& upstream, std::shared_ptr<const Backend> backend, bool reuses)
      : upstream_(upstream), backend_(std::move(backend)), reuses_(reuses) {
    auto stream = Open(reuses_);
    is_reused_ = stream->is_reused();
    if (is_reused_) {
      stream_ = std::move(stream);
      return;
    }
    opening_ = std::make_shared<Opening>(backend_, std::move(stream));
    Spawn(RunConnect(opening_), [] {});
  }

  ~Call() override { Forget(); }

  Task<Result<void>> Connected() override {
    if (stream_ == nullptr) {
      auto connected = co_await opening_->done.Wait();
      if (!connected) co_return std::unexpected(connected.error());
      stream_ = std::move(opening_->stream);
    }
    co_return Result<void>();
  }

  std::string_view Peer() const override { return stream_->peer().view(); }
  bool IsReused() const override { return is_reused_; }
  void HoldAnswerFor(CallKeeper* keeper) override { keeper_ = keeper; }
  void RelayAnswerTo(AnswerRelay* relay) override { relay_ = relay; }
  void SendOnlyWith(SendPermit* permit) override { permit_ = permit; }
  void GiveBodyTo(BodySink* sink) override { sink_ = sink; }
  void AddFields(Headers fields) override { added_ = std::move(fields); }

  Task<Result<Answer>> Exchange(const HttpRequest& request, MonoTime deadline,
                                std::size_t answer_bytes_max) override;

  // What the kernel may go on to send is that for longer. False: all of it has arrived.
  bool MayGoOn();
  void DropSent() { stream_->DropNow(); }

 private:
  void Bind(MonoTime deadline);
  void Forget() { std::erase(upstream_.sent_, this); }
  std::unique_ptr<UpstreamStream> Open(bool takes_kept);
  Task<Result<void>> Replace(MonoTime deadline);
  Task<bool> Send(std::string_view head, std::string_view body);
  Task<Result<Answer>> ReadAnswer(std::string_view method, MonoTime deadline,
                                  std::size_t answer_bytes_max);
  Task<void> TakeBody(ReadBuffer& buffer, const Head& head, MonoTime deadline,
                      std::size_t answer_bytes_max, Answer& answer);
  Error Refused() const;
  Error Lost(const Error& why) const;

  WriteUpstream& upstream_;
  const std::shared_ptr<const Backend> backend_;
  bool reuses_;
  std::shared_ptr<Opening> opening_;
  std::unique_ptr<UpstreamStream> stream_;  // until it is given back
  bool is_reused_ = false;
  bool accepted_any_ = false;  // the kernel took at least one byte
  bool saw_bytes_ = false;     // of an answer
  Millis keep_for_{0};         // after this answer
  CallKeeper* keeper_ = nullptr;
  AnswerRelay* relay_ = nullptr;
  SendPermit* permit_ = nullptr;
  bool was_refused_ = false;  // by it
  bool is_handed_ = false;    // the kernel has all that it will have
  std::uint64_t acknowledged_ = 0;
  MonoTime stuck_since_{};  // since when the backend has acknowledged no more than that, at most
  BodySink* sink_ = nullptr;
  Headers added_;
};

std::unique_ptr<UpstreamStream> WriteUpstream::Call::Open(bool takes_kept) {
  const UpstreamStreams::Terms terms{
      .use = UpstreamStreams::For::kWrite, .takes_kept = takes_kept, .is_kept = reuses_};
  return upstream_.streams_.Open(*backend_, terms, upstream_.thread_.clock().Now(), backend_);
}

// A kept connection ended while the ledger committed. Nothing was sent on it, so nothing is lost.
Task<Result<void>> WriteUpstream::Call::Replace(MonoTime deadline) {
  auto fresh = Open(/*takes_kept=*/false);
  const auto connected = co_await fresh->Connected(deadline);
  if (upstream_.thread_.clock().Now() >= deadline) {
    co_return std::unexpected(Error(ErrorCode::kNotSent,
                                    "connecting once more took what was left of the timeout",
                                    Delivery::kNotSent));
  }
  if (!connected) co_return std::unexpected(connected.error());
  stream_ = std::move(fresh);
  is_reused_ = false;
  co_return Result<void>();
}

Task<bool> WriteUpstream::Call::Send(std::string_view head, std::string_view body) {
  if (RC_CRASH_POINT_ARMED("k06")) {
    if (!(co_await stream_->Send({head.substr(0, 1)}, permit_)).whole) co_return false;
    accepted_any_ = true;
    RC_CRASH_POINT("k06");
    head.remove_prefix(1);
  }
  const UpstreamStream::Sent sent = co_await stream_->Send({head, body}, permit_);
  accepted_any_ = accepted_any_ || sent.any;
  was_refused_ = sent.was_refused;
  is_handed_ = true;
  // No answer is to be awaited, and the backend is to see that the request was cut.
  if (was_refused_) stream_->Cut();
  RC_CRASH_POINT("k07");
  co_return sent.whole;
}

Task<void> WriteUpstream::Call::TakeBody(ReadBuffer& buffer, const Head& head, MonoTime deadline,
                                         std::size_t answer_bytes_max, Answer& answer) {
  const AnswerRoom room{keeper_, upstream_.thread_};
  if (sink_ != nullptr) return ReadBodyInto(*sink_, *stream_, buffer, head, room, answer);
  const bool has_length = head.body == BodyKind::kLength;
  const auto length = has_length ? std::optional(head.content_length) : std::nullopt;
  const bool has_body = head.body != BodyKind::kNone && length != 0;
  if (has_body && relay_ != nullptr && relay_->Takes(answer.response, length)) {
    return RelayBody(*relay_, *stream_, buffer, head, answer_bytes_max, room, deadline, answer);
  }
  return ReadBody(*stream_, buffer, head, answer_bytes_max, room, answer);
}

Task<Result<Answer>> WriteUpstream::Call::ReadAnswer(std::string_view method, MonoTime deadline,
                                                     std::size_t answer_bytes_max) {
  ReadBuffer buffer;
  buffer.pool = &upstream_.thread_.buffers();
  PooledHead room;
  auto read = co_await ReadResponseHead(*stream_, buffer, method, upstream_.thread_.heads(), room,
                                        &saw_bytes_, Interim::kSkip);
  if (!read) co_return std::unexpected(read.error());
  const Head& head = *room;
  RC_CRASH_POINT("k08");
  if (is_reused_ && head.status == 408) {
    // It may be about the silence before the request, which then may or may not have been read.
    co_return std::unexpected(Error(ErrorCode::kBackendReset,
                                    "the backend gave up the kept connection with a 408",
                                    Delivery::kUncertain));
  }
  const Millis keep_for = reuses_ ? KeepFor(head) : Millis{0};
  Answer answer;
  TakeHead(head, answer.response);
  buffer.begin += head.size;
  co_await TakeBody(buffer, head, deadline, answer_bytes_max, answer);
  // Bytes behind the answer belong to nothing that was asked.
  if (answer.body_complete && buffer.begin == buffer.end) keep_for_ = keep_for;
  co_return answer;
}

// The permit let not all of it go. What it stopped was never handed to the kernel.
Error WriteUpstream::Call::Refused() const {
  if (!accepted_any_) {
    return Error(ErrorCode::kLedgerUnavailable,
                 "the ledger did not confirm in time that the call may be sent",
                 Delivery::kNotSent);
  }
  return Error(ErrorCode::kBackendReset,
               "sending was cut short: the ledger did not confirm that it may go on",
               Delivery::kUncertain);
}

// What a failure says of the request. On a kept connection a byte that the kernel did not take
// proves nothing.
Error WriteUpstream::Call::Lost(const Error& why) const {
  if (was_refused_) return Refused();
  if (const auto refusal = stream_->Refusal(); !saw_bytes_ && refusal) return *refusal;
  const bool may_have_left = accepted_any_ || is_reused_;
  return Error(why.code(), why.detail(), may_have_left ? Delivery::kUncertain : Delivery::kNotSent);
}

// A request that is given up is never sent anew while the kernel may still send what it has of it:
// it holds that no longer than this process would, and no longer than its lease.
void WriteUpstream::Call::Bind(MonoTime deadline) {
  const MonoTime now = upstream_.thread_.clock().Now();
  auto most = std::chrono::ceil<Millis>(deadline - now);
  if (permit_ != nullptr) {
    most = std::min(most, permit_->Left());
    stuck_since_ = now;
    upstream_.sent_.push_back(this);
    if (upstream_.sent_.size() == 1) upstream_.look_.Arm(now + limits::kUnacknowledgedLook);
  }
  stream_->DropUnacknowledged(most);
}

bool WriteUpstream::Call::MayGoOn() {
  const UpstreamStream::Progress found = stream_->Arrived();
  if (found.missing == 0 && is_handed_) return false;
  const MonoTime now = upstream_.thread_.clock().Now();
  if (std::exchange(acknowledged_, found.acknowledged) != found.acknowledged) stuck_since_ = now;
  // The kernel counts from no earlier than `stuck_since_`, but for the time between two looks, so
  // that it errs towards the end.
  const Millis left = permit_->Left();
  const auto stuck = std::chrono::floor<Millis>(now - stuck_since_);
  if (left > Millis{0}) stream_->DropUnacknowledged(stuck + left);
  return true;
}

Task<Result<Answer>> WriteUpstream::Call::Exchange(const HttpRequest& request, MonoTime deadline,
                                                   std::size_t answer_bytes_max) {
  RC_CHECK(stream_ != nullptr);
  // Who looks for no body here might take it for the next request.
  reuses_ = reuses_ && (request.body.empty() || !IsReadMethod(request.method));
  std::string head_bytes;
  if (!RenderHead(request, added_, *backend_, upstream_.via_, !reuses_, head_bytes)) {
    co_return std::unexpected(
        Error(ErrorCode::kHeaderTooLarge, "the request's head cannot be sent", Delivery::kNotSent));
  }
  if (head_bytes.size() + request.body.size() <= kTogetherBytesMax) {
    co_await FlushAtTurnEnd(upstream_.thread_.reactor());
  }
  // What the backend did before it was asked: nothing of the request has left, so this is no guess,
  // and what it said cannot be the answer.
  auto sight = stream_->Look();
  if (is_reused_ && sight != UpstreamStream::Sight::kQuiet) {
    if (const auto replaced = co_await Replace(deadline); !replaced) {
      co_return std::unexpected(replaced.error());
    }
    sight = stream_->Look();
  }
  if (sight == UpstreamStream::Sight::kLeft) {
    if (const auto refusal = stream_->Refusal()) co_return std::unexpected(*refusal);
    // Not kNotSent, which is tried again at once: that attempt may end in a doubt.
    co_return std::unexpected(Error(ErrorCode::kBackendReset,
                                    "the backend closed, or spoke, before it was asked anything",
                                    Delivery::kNotSent));
  }
  stream_->Arm(deadline);
  Bind(deadline);
  // Its permit need not outlive this.
  const struct Over {
    Call& call;
    ~Over() { call.Forget(); }
  } over{*this};
  // The answer may come before the request is fully sent: send and read at the same time.
  Promise<bool> sent;
  Spawn(SendThenReport(Send(head_bytes, request.body), sent), [] {});
  if (was_refused_ && !accepted_any_) co_return std::unexpected(Refused());
  if (sent.is_set() && !accepted_any_ && !is_reused_) {
    co_return std::unexpected(
        Error(ErrorCode::kNotSent, "the connection broke before it was used", Delivery::kNotSent));
  }
  auto answer = co_await ReadAnswer(request.method, deadline, answer_bytes_max);
  const bool keeps = keep_for_ > Millis{0} && sent.is_set();
  // Closing ends a send that is still pending: it never outlives this frame, and what the kernel
  // took of it is known only then.
  Forget();
  if (!keeps) stream_->Close(/*politely=*/answer && answer->body_complete);
  const bool was_sent = co_await sent.Wait();
  if (!answer) co_return std::unexpected(Lost(answer.error()));
  if (keeps && was_sent) {
    upstream_.streams_.Give(std::move(stream_), keep_for_, upstream_.thread_.clock().Now());
  }
  co_return answer;
}

void WriteUpstream::Look() {
  std::erase_if(sent_, [](Call* call) { return !call->MayGoOn(); });
  if (!sent_.empty()) look_.Arm(thread_.clock().Now() + limits::kUnacknowledgedLook);
}

void WriteUpstream::DropSent() {
  for (Call* const call : sent_) call->DropSent();
}

std::unique_ptr<UpstreamConnection> WriteUpstream::Open(const Backend& backend) {
  // A copy: policies may be replaced while it runs.
  return std::make_unique<Call>(*this, std::make_shared<const Backend>(backend), false);
}

std::unique_ptr<UpstreamConnection> WriteUpstream::OpenForCall(
    std::shared_ptr<const Backend> backend) {
  const bool reuses = backend->write_reuse;
  return std::make_unique<Call>(*this, std::move(backend), reuses);
}

}  // namespace recourse
