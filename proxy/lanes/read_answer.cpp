#include "proxy/lanes/read_answer.h"

#include <utility>

#include "filters/call/codecs.h"
#include "filters/credentials/credential_upstream.h"
#include "filters/endpoint_redirect.h"
#include "proxy/exchange/observation.h"
#include "proxy/lanes/read_waits.h"

namespace recourse {
namespace {

std::string_view LocationOf(const Head& head) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (EqualsIgnoreCase(head.fields[i].name, "Location")) return head.fields[i].value;
  }
  return {};
}

struct Form {
  std::string_view type;
  bool is_encoded = false;
};

Form FormOf(const Head& head) {
  Form form;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id == FieldId::kContentType) form.type = field.value;
    form.is_encoded = form.is_encoded || (field.id == FieldId::kContentEncoding &&
                                          !EqualsIgnoreCase(field.value, "identity"));
  }
  return form;
}

bool IsOfEvents(std::string_view type) { return ToLower(type).starts_with("text/event-stream"); }

}  // namespace

void CleanHead(ReadState& read) {
  if (read.own.scrubber.is_idle()) return;
  (void)read.own.scrubber.Clean({read.up.memory.get() + read.up.begin, read.head->size},
                                /*ends=*/true);
}

HttpResponse AnswerFailure(const ReadState& read, const Error& error) {
  HttpResponse answer =
      FailureAnswer(error, read.request.route.sends_once, read.upload_error.has_value());
  return read.tap == nullptr ? answer : read.tap->Failure(std::move(answer), error.code());
}

bool ReadAnswer::BeginReply() {
  // The request's head is not needed any more; its room holds the response's.
  return reply_.Begin(PassedHead{.head = *read_.head,
                                 .dropped = request_.route.is_observed ? 0 : kDroppedFromBackend,
                                 .answers_head = read_.head_request,
                                 .may_keep = read_.HasAsked(),
                                 .room = {read_.head_memory.get(), limits::kRelayBufferBytes}});
}

// All that looks at a piece before the client has it.
ReplyPiece ReadAnswer::Meet(BodyDecoder::Piece piece) {
  const bool ends =
      piece.end == BodyDecoder::End::kComplete || piece.end == BodyDecoder::End::kClosed;
  piece.data = read_.own.scrubber.Take(piece.data, ends);
  if (request_.observation) request_.observation->TakeAnswer(piece);
  if (request_.tap) request_.tap->TakeAnswer(piece);
  if (read_.events) read_.events->Take(piece.data);
  ReplyPiece told{.data = piece.data,
                  .ends = ends,
                  .within = request_.services.bounds.send_timeout,
                  .is_together = true};
  if (read_.tap != nullptr) told.addition = ShowTap(piece, ends);
  return told;
}

// Gives what the client is to be told at the end of it.
std::string_view ReadAnswer::ShowTap(const BodyDecoder::Piece& piece, bool ends) {
  const std::string_view told = read_.tap->Take({.data = piece.data,
                                                 .ends = ends,
                                                 .may_grow = reply_.may_grow(),
                                                 .is_listening = read_.is_listening});
  if (!told.empty()) request_.record.error = "response-incomplete";
  return told;
}

void ReadAnswer::NoteUnsent(const BodyDecoder::Piece& piece) {
  const bool ends =
      piece.end == BodyDecoder::End::kComplete || piece.end == BodyDecoder::End::kClosed;
  if (request_.observation && !ends) request_.observation->AnswerBroke(/*client_left=*/true);
}

// Nothing of the answer has gone out yet, and it turned out to be none. False, as Relay.
Task<bool> ReadAnswer::Replace(std::string_view detail) {
  read_.replaced = true;
  request_.record.error = FactsOf(ErrorCode::kBackendProtocol).slug;
  if (request_.observation) request_.observation->AnswerBroke(/*client_left=*/false);
  reply_.Linger(true);
  const Error error(ErrorCode::kBackendProtocol, detail);
  co_await reply_.Send(AnswerFailure(read_, error), /*may_keep=*/false);
  co_return false;
}

Task<bool> ReadAnswer::Relay() {
  using End = BodyDecoder::End;
  const Head& head = *read_.head;
  CleanHead(read_);
  request_.record.status = head.status;
  if (request_.observation) request_.observation->TakeAnswerHead(head);
  if (request_.tap) request_.tap->TakeAnswerHead(head);
  if (read_.is_endpoint && !request_.route.is_observed && IsRedirect(head.status)) {
    co_return co_await Replace(RedirectText(LocationOf(head)));
  }
  if (!read_.own.scrubber.is_idle() && head.body != BodyKind::kNone && FormOf(head).is_encoded) {
    co_return co_await Replace(kEncodedAnswer);
  }
  if (read_.tap != nullptr || CodecOf(*read_.backend).ListensByGet()) MeetListening();
  if (!BeginReply()) co_return co_await Replace("the answer's head cannot be forwarded");
  BodyDecoder decoder(head.body, head.content_length, BodyDecoder::Of::kAnswer);
  streams_ = head.body == BodyKind::kChunked || head.body == BodyKind::kUntilClose;
  if (streams_) MeetEvents();
  read_.up.Consume(head.size);
  auto piece = decoder.Decode(read_.up);
  if (piece.end == End::kBad) co_return co_await Replace(piece.error.detail());
  if (!co_await reply_.Send(Meet(piece))) {
    NoteUnsent(piece);
    co_return false;
  }
  read_.head_memory.reset();
  while (piece.end == End::kMore) {
    ArmWait();
    // Also what comes behind the body, so that such a connection is not used again.
    const std::size_t size = co_await read_.upstream->Read(read_.up);
    piece = TakeMore(size, decoder);
    if (piece.end == End::kCut || piece.end == End::kBad) {
      // Never completed towards the client: it sees the connection close early.
      if (!MendsBreak()) co_return false;
      piece = {{}, End::kComplete};
    }
    if (!co_await reply_.Send(Meet(piece))) {
      NoteUnsent(piece);
      co_return false;
    }
  }
  co_return piece.end == End::kComplete || piece.end == End::kClosed;
}

// Before more of the body is waited for.
void ReadAnswer::ArmWait() {
  const MonoTime now = request_.Now();
  read_.upstream->Arm(now + QuietMax(read_));
  if (streams_ && !read_.watching && read_.HasAsked()) StartWatch(read_);
  if (read_.has_events) AwaitEvents(now);
}

BodyDecoder::Piece ReadAnswer::TakeMore(std::size_t size, BodyDecoder& decoder) {
  if (read_.has_events) read_.exchange.client.Drains(nullptr);
  if (size == 0) return EndOf(decoder);
  read_.up.end += size;
  return decoder.Decode(read_.up);
}

// The answer broke off. True: its client is told so, as nobody who waits for a message sees that
// the connection has closed.
bool ReadAnswer::MendsBreak() {
  request_.record.error = "response-incomplete";
  if (request_.observation) request_.observation->AnswerBroke(/*client_left=*/false);
  if (read_.tap == nullptr || !read_.tap->TellsOfBreak()) return false;
  read_.head->keep_alive = false;
  return true;
}

// A head has come that may begin a stream without an end.
void ReadAnswer::MeetListening() {
  const auto [type, is_encoded] = FormOf(*read_.head);
  const bool listens = read_.tap != nullptr
                           ? read_.tap->TakeHead(read_.head->status, type, is_encoded)
                           : request_.record.method.view() == "GET";
  if (listens && IsOfEvents(type)) {
    read_.is_listening = true;
    read_.upstream->KeepAlive();
  }
}

// An answer to a POST may be events too, and no client takes it up again.
void ReadAnswer::MeetEvents() {
  if (!read_.is_listening && request_.record.method.view() != "GET") return;
  const auto [type, is_encoded] = FormOf(*read_.head);
  read_.has_events = IsOfEvents(type);
  if (read_.has_events && !is_encoded) read_.events.emplace();
}

void ReadAnswer::AwaitEvents(MonoTime now) {
  read_.heard = now;
  read_.is_limited = false;
  read_.exchange.client.Drains(this);
  if (request_.services.draining) Drain();
}

void ReadAnswer::Drain() {
  if (std::exchange(read_.is_limited, true)) return;
  read_.upstream->Arm(read_.heard + limits::kDrainQuiet);
}

// What it means that no more has come. Whole events may end where they are, as their client takes
// the stream up again.
BodyDecoder::Piece ReadAnswer::EndOf(const BodyDecoder& decoder) {
  const UpstreamStream& upstream = *read_.upstream;
  if (read_.is_limited && upstream.expired() && read_.events && read_.events->IsBetween()) {
    read_.head->keep_alive = false;
    return {{}, BodyDecoder::End::kComplete};
  }
  return {{}, decoder.Ended(upstream.HasEndedCleanly())};
}

}  // namespace recourse
