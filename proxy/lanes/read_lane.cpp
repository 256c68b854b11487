#include "proxy/lanes/read_lane.h"

#include <algorithm>

#include "filters/credentials/credentials.h"
#include "proxy/base/log/log.h"
#include "proxy/exchange/observation.h"
#include "proxy/exchange/tunnel.h"
#include "proxy/lanes/observed_call.h"
#include "proxy/lanes/read_answer.h"
#include "proxy/lanes/read_attempt.h"
#include "proxy/lanes/run_tunnel.h"

namespace recourse {
namespace {

constexpr std::uint64_t kDroppedFromClient =
    Bit(FieldId::kHost) | Bit(FieldId::kExpect) | Bit(FieldId::kForwarded) |
    Bit(FieldId::kRecourseOwn) | Bit(FieldId::kRecourseIntent) | Bit(FieldId::kRecourseFlow) |
    Bit(FieldId::kRecourseSession);
// Observe mode leaves everything else as it came.
constexpr std::uint64_t kDroppedInObserveMode = Bit(FieldId::kHost) | Bit(FieldId::kExpect);

constexpr std::uint64_t kMaxForwardsBit = Bit(FieldId::kMaxForwards);

std::string_view ContentTypeOf(const Head& head) {
  if (!head.Has(FieldId::kContentType)) return {};
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (head.fields[i].id == FieldId::kContentType) return head.fields[i].value;
  }
  return {};
}

bool CarriesContent(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

// Those of the policy take the place of the agent's.
Task<Result<void>> TakeCredentials(ReadState& read) {
  std::optional<Backend> room;
  auto own = co_await read.request.worker.credentialed.CredentialsFor(
      CalledFor(read.tool, *read.backend, room));
  if (!own) co_return std::unexpected(own.error());
  read.own = std::move(*own);
  Head& head = read.request.head;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    Field& field = head.fields[i];
    // What an extension of WebSocket compresses cannot be looked through, nor can other charsets,
    // nor a part of an answer, which may hold a part of an echo; a server may send the whole (RFC
    // 9110 14.2).
    field.hop = field.hop || FindHeader(read.own.fields, field.name) != nullptr ||
                EqualsIgnoreCase(field.name, "sec-websocket-extensions") ||
                AsksForCharset(field.name, field.value) || EqualsIgnoreCase(field.name, "range") ||
                EqualsIgnoreCase(field.name, "if-range");
  }
  co_return Result<void>();
}

// A read may be sent again while no byte of an answer came: its effect is none by policy.
bool MayRetry(const Error& error, bool whole, int attempts) {
  return whole && error.code() == ErrorCode::kBackendReset && attempts < limits::kReadAttemptsMax;
}

}  // namespace

Task<bool> ReadLane::Relay(Exchange& exchange, ReadTap* tap) {
  ServedRequest& request = exchange.request;
  RequestRecord& record = request.record;
  const bool is_observed = request.route.is_observed;
  const std::string* const held = tap == nullptr ? nullptr : tap->body();
  ReadState read(exchange, tap, ContentTypeOf(request.head),
                 is_observed       ? limits::kObservedPatience
                 : held != nullptr ? limits::kWriteTimeout
                                   : limits::kReadFirstByteTimeout);
  if (held == nullptr) read.request_room = exchange.body.FreeRoom();
  const bool takes_along = !read.request_room.empty();
  if (!takes_along) {
    read.head_memory = request.worker.thread.buffers().Take();
    read.request_room = {read.head_memory.get(), limits::kRelayBufferBytes};
  }
  if (HasSecrets(*read.backend, read.tool)) {
    if (const auto taken = co_await TakeCredentials(read); !taken) {
      co_return co_await Refuse(exchange, taken.error().code(),
                                std::string(taken.error().detail()));
    }
  }
  if (!RenderHead(read)) {
    co_return co_await Refuse(exchange, ErrorCode::kHeaderTooLarge,
                              "the request's head cannot be forwarded");
  }
  read.first = held == nullptr ? exchange.body.Begin()
                               : RequestBody::Piece{*held, BodyDecoder::End::kComplete};
  read.whole = read.first.end == BodyDecoder::End::kComplete;
  if (takes_along) read.head_memory = exchange.body.Take();
  if (read.first.end == BodyDecoder::End::kBad) {
    exchange.reply.Linger(true);
    co_return co_await Refuse(exchange, read.first.error.code(),
                              std::string(read.first.error.detail()));
  }
  if (read.overrides.Feed(read.first.data)) {
    if (!is_observed) {
      co_return co_await Refuse(exchange, read.overrides.code(),
                                std::string(read.overrides.reason()));
    }
    NoteFormOverride(request, read.overrides.reason());
  }
  if (held == nullptr) record.bytes_in += read.request_head.size() + read.first.data.size();
  if (request.observation && TakeObserved(request, read.first)) {
    co_await request.route.judge->JudgeObserved(request);
  }
  if (request.tap) request.tap->TakeRequest(read.first);
  if (!read.whole && exchange.body.is_awaited() && !co_await exchange.body.Ask()) co_return false;
  ReadAttempt attempt(read);
  auto got = co_await attempt.Run();
  attempt.End(got);
  while (!got && !request.route.sends_once && !read.left &&
         MayRetry(got.error(), read.whole, record.attempts)) {
    got = co_await attempt.Run();
    attempt.End(got);
  }
  if (read.whole) exchange.body.Drop();
  if (got && read.head->status == 101) co_return co_await RunUpgraded(read);
  if (!read.upgrade.empty()) request.services.metrics->tunnels_refused.Increment();
  if (got) {
    const bool relayed = co_await ReadAnswer(read).Relay();
    if (request.observation && relayed) request.observation->AnswerDelivered();
    if (request.tap && relayed) request.tap->AnswerDelivered();
    bool whole = read.whole;
    if (read.uploading || read.watching) whole = co_await EndSides(read);
    co_return EndAnswered(read, relayed, whole);
  }
  // A body that broke off is why the backend gave no answer.
  co_return co_await EndUnanswered(read, read.upload_error.value_or(got.error()));
}

// The request as it goes on: same fields in the same order, without what belongs to this hop.
bool ReadLane::RenderHead(ReadState& read) {
  const ServedRequest& request = read.request;
  const Head& head = request.head;
  const Route& route = request.route;
  HeadWriter writer(read.request_room.data(), read.request_room.size());
  if (route.match.sent.data() == head.target.data() && read.backend->base_path.empty()) {
    writer.StartRequest(head);
  } else {
    std::string target = read.backend->base_path;
    target.append(route.match.sent).append(route.query);
    writer.StartRequest(head.method, target);
  }
  writer.Add(request.view->HostOf(*read.backend));
  std::uint64_t dropped = route.is_observed ? kDroppedInObserveMode : kDroppedFromClient;
  if (request.trace.is_on) {
    read.span_id_at = request.trace.AddTraceparent(writer);
    dropped |=
        Bit(FieldId::kTraceparent) | (request.trace.is_clients ? 0 : Bit(FieldId::kTracestate));
  }
  writer.CopyFields(head, dropped | (route.forwards_left < 0 ? 0 : kMaxForwardsBit));
  for (const auto& [name, value] : read.own.fields) writer.Add(name, value);
  if (route.forwards_left >= 0) writer.Add("Max-Forwards", std::to_string(route.forwards_left));
  if (!read.upgrade.empty()) writer.Upgrade(read.upgrade);
  writer.Add(request.view->via);
  if (head.body == BodyKind::kChunked) {
    writer.Chunked();
  } else if (head.body == BodyKind::kLength || head.has_content_length ||
             (CarriesContent(head.method) && !route.is_observed)) {
    writer.ContentLength(head.content_length);
  }
  if (read.is_last) writer.ConnectionClose();
  writer.End();
  read.chunked_upload = head.body == BodyKind::kChunked;
  read.head_request = head.method == "HEAD";
  read.request_head = writer.view();
  return writer.ok();
}

// The answer is 101 with the protocol that was asked for: from here on bytes, until both sides end.
Task<bool> ReadLane::RunUpgraded(ReadState& read) {
  // The tunnel reads from the client itself, and may be over at once.
  co_await EndSides(read);
  if (read.left) co_return false;
  ServedRequest& request = read.request;
  request.record.status = read.head->status;
  Connection* const backend = read.upstream->raw();
  if (backend == nullptr) co_return false;
  CleanHead(read);
  const auto client =
      co_await read.exchange.client.Upgrade(*read.head, kDroppedFromBackend, read.upgrade,
                                            {read.head_memory.get(), limits::kRelayBufferBytes});
  read.up.Consume(read.head->size);
  if (!client) co_return false;
  read.head_memory.reset();
  Tunnel tunnel(request.worker.thread, {client->connection, client->buffer}, {*backend, read.up},
                request.services.bounds.stream_timeout, {});
  request.services.metrics->tunnels_opened.Increment();
  if (!read.own.scrubber.is_idle()) tunnel.TakeOut(read.own.scrubber);
  co_await RunTunnel(read.exchange, tunnel);
  if (tunnel.is_opaque()) {
    request.record.error = FactsOf(ErrorCode::kBackendProtocol).slug;
    Log(LogLevel::kWarn,
        "a tunnel was ended: its frames cannot be looked through for a credential of the policy",
        {{"backend", read.backend->name}});
  }
  co_return false;
}

Task<bool> ReadLane::EndUnanswered(ReadState& read, Error error) {
  ServedRequest& request = read.request;
  Reply& reply = read.exchange.reply;
  if (!read.left) request.record.error = FactsOf(error.code()).slug;
  if (request.observation) request.observation->Failed(error);
  if (reply.is_cut()) {
    co_await EndSides(read);
    reply.Linger(false);
    co_return false;
  }
  const bool keep = read.whole && request.head.keep_alive;
  reply.Linger(!keep);
  const bool kept = co_await reply.Send(AnswerFailure(read, error), keep);
  if (read.uploading || read.watching) co_await EndSides(read);
  co_return kept && !read.half_closed;
}

// Keeps what can be used again; nothing uses the read any more.
bool ReadLane::EndAnswered(ReadState& read, bool relayed, bool whole) {
  ServedRequest& request = read.request;
  const Head& head = *read.head;
  // Where a part of the body is missing, the next request would be read as that part.
  const bool clean = relayed && whole && read.sent_whole && read.up.begin == read.up.end;
  if (clean && head.keep_alive && head.body != BodyKind::kUntilClose && !read.head_request &&
      read.upgrade.empty() && !read.is_last) {
    const Millis hint{(head.keep_alive_timeout_s - 1) * 1000};
    const Millis idle = head.keep_alive_timeout_s < 0
                            ? limits::kUpstreamIdleTimeout
                            : std::min<Millis>(hint, std::chrono::seconds(60));
    if (idle > Millis{0}) {
      request.ended = request.Now();
      request.worker.streams->Give(std::move(read.upstream), idle, request.ended);
    }
  }
  Reply& reply = read.exchange.reply;
  const bool is_cut = !relayed && !read.replaced;
  if (is_cut) {
    reply.Linger(false);
    reply.Cut();
  }
  return relayed && whole && reply.keeps();
}

// Waits until the upload no longer uses the read; true when the client's whole body was read.
Task<bool> ReadLane::StopUpload(ReadState& read) {
  if (!read.uploaded.is_set()) {
    // Answered before the upload ended: stop it; neither connection is usable then.
    read.stopping = true;
    read.upstream->Cut();
    read.exchange.body.Stop();
    read.exchange.reply.KeepNot();
    read.exchange.reply.Linger(true);
  }
  co_return co_await read.uploaded.Wait();
}

Task<bool> ReadLane::EndSides(ReadState& read) {
  const bool whole = read.uploading ? co_await StopUpload(read) : read.whole;
  if (read.watching) {
    if (!read.watched.is_set()) read.exchange.client.StopAwaiting();
    co_await read.watched.Wait();
  }
  co_return whole;
}

}  // namespace recourse
