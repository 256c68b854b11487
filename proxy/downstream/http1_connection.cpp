#include "proxy/downstream/http1_connection.h"

#include <utility>

#include "policy/model/tunnel_decision.h"
#include "proxy/base/crash_point.h"
#include "proxy/exchange/request_target.h"
#include "proxy/exchange/router.h"
#include "proxy/net/message/protocol_detection.h"

namespace recourse {
namespace {

Ingress IngressOf(std::optional<Tcp::endpoint> original, const ConnectionLimiter::Place& place) {
  Ingress ingress;
  if (original) ingress.original_text = AuthorityText(AuthorityOf(*original), 0);
  ingress.original = std::move(original);
  ingress.peer = place.peer();
  return ingress;
}

}  // namespace

Http1Connection::Http1Connection(Worker& worker, const Lanes& lanes, Socket socket,
                                 ConnectionLimiter::Place place,
                                 std::optional<Tcp::endpoint> original)
    : worker_(worker),
      services_(worker.services),
      lanes_(lanes),
      place_(std::move(place)),
      wire_(worker, std::move(socket), IngressOf(std::move(original), place_)),
      request_(worker, wire_.ingress),
      reply_(wire_, request_),
      body_(wire_, request_, reply_),
      client_(wire_, request_, body_),
      exchange_{request_, body_, reply_, client_},
      tls_(wire_, request_.caller) {}

Task<void> Http1Connection::Run() {
  RC_CRASH_POINT("k01");
  Connection& client = wire_.client;
  if (!wire_.ingress.original && worker_.tls != nullptr &&
      !(co_await IsSpokenTo() && co_await tls_.Accept())) {
    client.Close();
    co_return;
  }
  while (co_await ReadHead()) {
    tls_.NoteRequest();
    request_.Begin();
    body_.Prepare();
    const bool keep = co_await ServeRequest(exchange_, lanes_);
    request_.End();
    if (keep && wire_.meets_opening) continue;  // CONNECT itself asked for nothing
    const bool ends = !keep || wire_.IsLast();
    ++wire_.served;
    if (!ends) continue;
    // Who wanted to go on may have sent more already; a reset for that would eat the answer. And
    // how the client of a write leaves tells whether it has read its answer.
    if ((request_.head.keep_alive || wire_.unread) && !reply_.is_cut() &&
        !request_.record.client_gone) {
      reply_.Linger(true);
    }
    break;
  }
  tls_.End();
  if (client.tls != nullptr && !reply_.is_cut()) client.tls->SayGoodbye();
  if (reply_.lingers()) co_await Linger();
  if (wire_.unread && client.error == boost::asio::error::connection_reset) {
    services_.ledger->MarkUnread(*wire_.unread);
  }
  client.Close();
}

bool Http1Connection::MakeRoom() {
  if (client_.Look() == ClientSide::State::kSpeaks) return false;
  is_leaving_ = true;
  unlink();
  place_.GiveBack();
  services_.metrics->made_room.Increment();
  wire_.client.Cancel();
  return true;
}

void Http1Connection::Drain() {
  if (wire_.running != nullptr) wire_.running->Drain();
  if (is_idle_) wire_.client.Cancel();
}

// Waits for the first bytes, which cost nothing but the connection's place.
Task<bool> Http1Connection::IsSpokenTo() {
  wire_.client.deadline.Arm(wire_.Now() + limits::kTlsHandshakeTimeout);
  is_idle_ = true;
  worker_.idle.Add(*this, /*has_asked=*/false);
  const bool readable = co_await WaitReadable(wire_.client);
  is_idle_ = false;
  unlink();
  co_return readable && !is_leaving_;
}

Task<bool> Http1Connection::ReadHead() {
  Connection& client = wire_.client;
  ReadBuffer& in = wire_.in;
  bool is_timed = false;  // a head that has begun has a time to end; most are here whole at once
  const auto begin_time = [&] {
    if (std::exchange(is_timed, true)) return;
    client.deadline.Arm(wire_.Now() + services_.bounds.head_timeout);
  };
  for (;;) {
    if (in.begin == in.end) {  // nothing came yet, or TLS has taken what there was
      is_timed = false;
      if (!BeginIdle()) co_return false;
      if (!EndIdle(co_await ReadInto(client, in))) co_return false;
    }
    TunnelOpening opening = TunnelOpening::kRequest;
    if (wire_.meets_opening) {
      begin_time();
      opening = co_await MeetOpening();
    }
    if (opening == TunnelOpening::kOver) co_return false;
    if (in.begin == in.end) continue;
    if (opening == TunnelOpening::kRequest) {
      const ParseResult parsed = ParseRequestHead(in.unread(), request_.head);
      if (parsed.state == ParseState::kComplete) {
        client.deadline.Reset();
        co_return true;
      }
      if (parsed.state == ParseState::kBad) {
        co_await RefuseHead(parsed.error);
        co_return false;
      }
    }
    begin_time();
    if (!co_await ReadMoreHead()) co_return false;
  }
}

Task<void> Http1Connection::RefuseHead(const Error& error) {
  request_.Begin();
  services_.metrics->parse_errors
      .Add({{"side", "client"}, {"reason", std::string(FactsOf(error.code()).slug)}})
      .Increment();
  co_await Refuse(exchange_, error.code(), std::string(error.detail()));
  request_.End();
}

// Before bytes of a head are waited for. False: nobody does any more.
bool Http1Connection::BeginIdle() {
  if (services_.draining) return false;
  // Who was redirected and waits for the other side to speak first would wait in vain.
  const bool is_awaited = wire_.ingress.original && wire_.meets_opening;
  const MonoTime now =
      request_.ended != MonoTime{} ? std::exchange(request_.ended, {}) : wire_.Now();
  wire_.client.deadline.ArmLoosely(
      now + (is_awaited ? services_.bounds.head_timeout : services_.bounds.idle_timeout));
  is_idle_ = true;
  worker_.idle.Add(*this, wire_.served > 0);
  return true;
}

// `size` bytes came; 0: none will. False: no head follows.
bool Http1Connection::EndIdle(std::size_t size) {
  is_idle_ = false;
  unlink();
  wire_.in.end += size;
  if (size > 0) wire_.unread.reset();
  return size > 0 && !is_leaving_;
}

// Waits for the rest of a head that has begun.
Task<bool> Http1Connection::ReadMoreHead() {
  ReadBuffer& in = wire_.in;
  if (in.free_size() == 0) in.Compact();
  RC_CHECK(in.free_size() > 0);  // the parser refuses a head before it fills the buffer
  const std::size_t size = co_await ReadSome(wire_.client, in.free_space(), in.free_size());
  in.end += size;
  if (size == 0 && wire_.client.deadline.expired()) {
    request_.Begin();
    request_.head.Reset();
    co_await Refuse(exchange_, ErrorCode::kRequestTimeout,
                    "the request's head did not arrive in time");
    request_.End();
  }
  co_return size > 0;
}

Task<Http1Connection::TunnelOpening> Http1Connection::MeetOpening() {
  const ProtocolDetection first = ReadFirstBytes(wire_.in.unread());
  if (!first.is_complete) co_return TunnelOpening::kNeedMore;
  wire_.meets_opening = false;
  const Ingress& ingress = wire_.ingress;
  // Each request of who was redirected is judged by the host that it names.
  if (ingress.original && first.opening == ClientOpening::kHttp) co_return TunnelOpening::kRequest;
  const Authority target =
      ingress.inside ? ingress.inside->target : RedirectedTarget(*ingress.original, first);
  const Heard heard{first.opening, first.server_name};
  TunnelDecision decision = DecideTunnel(*worker_.view->policy, target, heard);
  const bool is_tls =
      first.opening == ClientOpening::kTls || first.opening == ClientOpening::kBadTls;
  const bool is_blind = decision.act == TunnelDecision::Act::kTunnel;
  // What is neither TLS nor HTTP is told so, as on any connection.
  if (!is_blind && !is_tls) co_return TunnelOpening::kRequest;
  const bool is_served = decision.act == TunnelDecision::Act::kServe;
  if (is_served && co_await tls_.Intercept(target)) co_return TunnelOpening::kNeedMore;
  if (!is_served && !is_blind && decision.backend != nullptr &&
      worker_.view->policy->routes->Intercepts(*decision.backend)) {
    tls_.NoteInterception(target, "name", decision.reason,
                          "have the client name the host that it calls");
  }
  request_.head.Reset();
  request_.Begin();
  request_.record.method.Set("CONNECT");
  request_.record.authority = AuthorityText(target, 0);
  request_.record.server_name = first.server_name;
  if (is_blind) {
    co_await lanes_.tunnel.RunBlind(exchange_, target, std::move(decision),
                                    TunnelLane::ConnectReplied::kYes);
  } else {
    co_await lanes_.tunnel.RefuseTls(exchange_, decision.reason);
  }
  request_.End();
  co_return TunnelOpening::kOver;
}

Task<void> Http1Connection::Linger() {
  ::shutdown(wire_.client.socket(), SHUT_WR);
  wire_.client.deadline.Arm(wire_.Now() + limits::kLingerTimeout);
  if (!wire_.in.memory) wire_.in.memory = worker_.thread.buffers().Take();
  std::size_t drained = 0;
  while (drained < limits::kLingerBytesMax) {
    const std::size_t size =
        co_await ReadSome(wire_.client, wire_.in.memory.get(), limits::kRelayBufferBytes);
    if (size == 0) break;
    drained += size;
  }
}

}  // namespace recourse
