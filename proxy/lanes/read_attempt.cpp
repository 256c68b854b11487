#include "proxy/lanes/read_attempt.h"

#include <utility>

#include "proxy/exchange/observation.h"
#include "proxy/lanes/observed_call.h"
#include "proxy/lanes/read_answer.h"
#include "proxy/lanes/read_waits.h"
#include "proxy/net/http1/chunk_head.h"

namespace recourse {

Task<Result<void>> ReadAttempt::Run() {
  // Before a kept connection is looked at and taken: it is used at once then.
  if (read_.request_head.size() + read_.first.data.size() <= kTogetherBytesMax) {
    co_await FlushAtTurnEnd(request_.worker.thread.reactor());
  }
  MonoTime now = request_.Now();
  Begin(now);
  UpstreamStream& upstream = *read_.upstream;
  if (!upstream.is_reused()) {
    if (const auto connected = co_await upstream.Connected(MonoTime::max()); !connected) {
      read_.upstream.reset();
      co_return std::unexpected(connected.error());
    }
    now = request_.Now();
  }
  request_.record.peer = upstream.peer();
  char size[24];
  const std::string_view data = read_.first.data;
  const bool is_chunk = read_.chunked_upload && !data.empty();
  // A backend may answer and close before it has read everything, so a failed write is not the end.
  if (!upstream.BeginSend(
          {read_.request_head, is_chunk ? ChunkHead(data.size(), size) : std::string_view(), data,
           is_chunk ? kCrlf : std::string_view(),
           read_.chunked_upload && read_.whole ? kLastChunk : std::string_view()})) {
    upstream.Arm(now + read_.patience);
    co_await upstream.SendEnded();
    now = request_.Now();
  }
  read_.sent_whole = upstream.EndSend().whole;
  read_.head_due = now + read_.patience;
  upstream.Arm(read_.whole ? AnswerDue(read_, now) : read_.head_due);
  if (request_.observation && read_.whole) request_.observation->RequestSent();
  if (!read_.whole && !read_.uploading) {
    read_.uploading = true;
    Spawn(Upload(read_), [] {});
  }
  read_.up.pool = &request_.worker.thread.buffers();
  read_.up.begin = read_.up.end = 0;
  bool saw_bytes = false;
  const std::string_view method = read_.head_request ? std::string_view("HEAD") : "GET";
  auto got = co_await ReadResponseHead(upstream, read_.up, method, request_.worker.thread.heads(),
                                       read_.head, &saw_bytes, Interim::kReturn);
  while (!got || (read_.head->status < 200 && read_.head->status != 101)) {
    if (got) {
      got = co_await PassInterim();
      if (!got) break;
    } else {
      // A client that has left is not waited for.
      const bool is_first_look = !read_.watching && read_.HasAsked() && upstream.expired();
      if (!is_first_look || request_.Now() >= read_.head_due) break;
      upstream.Arm(read_.head_due);
      StartWatch(read_);
    }
    got = co_await ReadResponseHead(upstream, read_.up, method, request_.worker.thread.heads(),
                                    read_.head, &saw_bytes, Interim::kReturn);
  }
  co_return Judge(std::move(got), saw_bytes);
}

void ReadAttempt::Begin(MonoTime now) {
  RequestRecord& record = request_.record;
  // What another policy may have opened is not this one's to use.
  const bool is_in_force = request_.view == request_.worker.view;
  const bool takes_kept =
      ++record.attempts == 1 && !request_.route.sends_once && read_.upgrade.empty() && is_in_force;
  read_.upstream = request_.worker.streams->Open(
      *read_.backend,
      {.use = UpstreamStreams::For::kRead, .takes_kept = takes_kept, .is_kept = is_in_force}, now);
  if (request_.trace.is_on) {
    CallTrace::BeginTry(request_.worker.span_ids, record, read_.request_room.data(),
                        read_.span_id_at);
  }
  record.reused = read_.upstream->is_reused();
  record.tries.at(static_cast<std::size_t>(record.attempts) - 1).began = now;
}

void ReadAttempt::End(const Result<void>& got) {
  RequestRecord& record = request_.record;
  const MonoTime now = request_.Now();
  std::string_view why;
  if (!got) why = read_.left ? std::string_view("client-gone") : FactsOf(got.error().code()).slug;
  record.EndTry(now, got ? read_.head->status : 0, why);
  if (got) record.overhead = now - request_.began - record.with_backend;
}

// What came of waiting for the response's head.
Result<void> ReadAttempt::Judge(Result<void> got, bool saw_bytes) {
  if (got && request_.record.reused && read_.IsAboutSilence()) {
    got = std::unexpected(
        Error(ErrorCode::kBackendReset, "the backend gave up the kept connection with a 408"));
    saw_bytes = false;
  }
  read_.answering = got.has_value();
  if (got && read_.head->status == 101 && !SwitchedTo(*read_.head, read_.upgrade)) {
    got = std::unexpected(
        Error(ErrorCode::kBackendProtocol, "the backend switched protocols unasked"));
  }
  if (got) return got;
  if (const auto refusal = read_.upstream->Refusal(); !saw_bytes && refusal) {
    got = std::unexpected(*refusal);
  }
  if (!read_.uploading) read_.upstream.reset();
  if (saw_bytes && got.error().code() == ErrorCode::kBackendReset) {
    return std::unexpected(Error(ErrorCode::kBackendProtocol, "the answer's head was cut off"));
  }
  return got;
}

// 102 and 103 go on to a client that knows them; 100 answers a question that we have answered.
Task<Result<void>> ReadAttempt::PassInterim() {
  const Head& head = *read_.head;
  if (!read_.interim.Take(head)) {
    co_return std::unexpected(Error(ErrorCode::kBackendProtocol, kTooManyInterim));
  }
  CleanHead(read_);
  if (head.status != 100 && request_.head.minor == 1) {
    // Bytes of an answer came, so the request is not sent again and its head's room is free.
    const std::span<char> room(read_.head_memory.get(), limits::kRelayBufferBytes);
    switch (co_await read_.exchange.reply.SendInterim(head, kDroppedFromBackend, room)) {
      case Reply::Interim::kUnwritable:
        co_return std::unexpected(
            Error(ErrorCode::kBackendProtocol, "an interim answer's head cannot be forwarded"));
      case Reply::Interim::kGone:
        read_.left = true;
        co_return std::unexpected(
            Error(ErrorCode::kBackendTimeout, "the client did not take an interim answer"));
      case Reply::Interim::kSent:
        break;
    }
  }
  read_.up.Consume(head.size);
  // Who shows that it works on the answer gets its time again, but not for a client that has left.
  const MonoTime now = request_.Now();
  read_.head_due = now + read_.patience;
  read_.upstream->Arm(read_.HasAsked() ? AnswerDue(read_, now) : read_.head_due);
  co_return Result<void>();
}

namespace {

// What the body of a form says of its method. False: the upload ends.
bool MayGoOn(ReadState& read, const RequestBody::Piece& piece) {
  if (piece.end == BodyDecoder::End::kBad) {
    read.upload_error = piece.error;
    return false;
  }
  if (!read.overrides.Feed(piece.data)) return true;
  if (read.request.route.is_observed) {
    NoteFormOverride(read.request, read.overrides.reason());
    return true;
  }
  read.upload_error = Error(read.overrides.code(), read.overrides.reason());
  return false;
}

}  // namespace

Task<void> Upload(ReadState& read) {
  ServedRequest& request = read.request;
  UpstreamStream& upstream = *read.upstream;
  bool complete = false;
  // What follows a piece that was not sent whole would stand for the rest of it.
  while (!complete && !read.stopping && read.sent_whole) {
    const auto piece = co_await read.exchange.body.Read(MonoTime::max());
    if (!MayGoOn(read, piece)) break;
    complete = piece.end == BodyDecoder::End::kComplete;
    request.record.bytes_in += piece.data.size();
    if (request.observation && TakeObserved(request, piece)) {
      co_await request.route.judge->JudgeObserved(request);
    }
    if (request.tap) request.tap->TakeRequest(piece);
    char size[24];
    const bool is_chunk = read.chunked_upload && !piece.data.empty();
    // A deadline for both: what is relayed meanwhile may be quiet for longer.
    upstream.Arm(request.Now() + (read.answering ? QuietMax(read) : read.patience));
    const auto sent =
        co_await upstream.Send({is_chunk ? ChunkHead(piece.data.size(), size) : std::string_view(),
                                piece.data, is_chunk ? kCrlf : std::string_view(),
                                complete && read.chunked_upload ? kLastChunk : std::string_view()});
    if (!sent.whole) {
      read.sent_whole = false;
      break;
    }
    if (request.observation && complete) request.observation->RequestSent();
  }
  if (complete && !read.answering) {
    const MonoTime now = request.Now();
    read.head_due = now + read.patience;
    upstream.Arm(FirstLook(read, now));
  }
  // The client broke off: the backend must not take what it has for the whole. Where it took no
  // more itself, it may have an answer.
  if (!complete && read.sent_whole) upstream.Cut();
  read.uploaded.Set(complete);
}

}  // namespace recourse
