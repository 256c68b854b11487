// One client connection: reads heads, decides the lane by policy, answers in order.
//
// session.cpp reads and classifies, read_lane.cpp and read_answer.cpp relay reads, write_lane.cpp
// runs writes through the filter chain, mcp_lane.cpp does either for MCP servers,
// session_answers.cpp sends what is here whole. A write is never canceled because its client went
// away: the session goes on until the outcome is recorded.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "filters/mcp/mcp_decision.h"
#include "policy/model/callers.h"
#include "policy/model/route_table.h"
#include "policy/model/tunnel_decision.h"
#include "proxy/exchange/services.h"
#include "proxy/exchange/tunnel.h"
#include "proxy/net/http1/http_head.h"
#include "proxy/net/message/body_decoder.h"
#include "proxy/net/message/first_bytes.h"

namespace recourse {

class AgentStream;
class AnswerStream;
class Held;
class Observation;
struct AgentSide;
struct McpRead;
struct RequestState;
struct StateScope;

// Its address as a host, for what is asked for by address.
Authority AuthorityOf(const Tcp::endpoint& endpoint);

// Why no more of a request's body comes: the client was too slow, or broke off.
inline Error BrokenBody(const Connection& client) {
  return client.deadline.expired()
             ? Error(ErrorCode::kRequestTimeout, "the request's body did not arrive in time")
             : Error(ErrorCode::kMalformedRequest, "the request's body ended too early");
}

class Session final : IdleConnection, ClientLink {
 public:
  // `original` is where the client of a redirected connection wanted to.
  Session(Worker& worker, Socket socket, ConnectionGate::Place place,
          std::optional<Tcp::endpoint> original);

  // Serves requests until either side closes or a bound is reached.
  Task<void> Run();
  // Ends a session that waits for its next request; others end after the current one.
  void Drain();

 private:
  // The TLS handshake and who the client is by it (tls_accept.cpp). False: it failed.
  Task<bool> AcceptTls();
  Task<std::string_view> Handshake();
  enum class Shaken : std::uint8_t { kDone, kFailed, kSlow };
  Task<Shaken> ShakeHands();
  bool MayLogHandshake();
  Task<bool> IsSpokenTo();
  // The same as a server of that host, after which the connection leads there (intercept.cpp).
  // False: it failed, which is counted and logged.
  Task<bool> Intercept(Authority target);
  bool NoteInterception(const Authority& target, std::string_view result, std::string_view reason,
                        std::string_view advice);
  void CountInterception(std::string_view result);
  void EndInterception();
  bool IsOf(const ConnectionGate::Address& peer) const override { return place_.IsOf(peer); }
  bool MakeRoom() override;
  Task<bool> ReadHead();
  // An idle connection holds no buffer.
  bool BeginIdle();
  bool EndIdle(std::size_t size);
  Task<bool> ReadMoreHead();
  Task<bool> Serve();

  // connect_lane.cpp: CONNECT, and what comes in the tunnel.
  struct Inside {
    Authority target;
    std::uint16_t scheme_port;  // that its requests need not name
  };
  enum class Met : std::uint8_t { kNeedMore, kRequest, kOver };
  Task<bool> ServeConnect();
  Task<bool> RefuseConnect(ErrorCode code, std::string reason);
  Task<bool> EnterTarget(Authority target);
  // What the client says first in a tunnel to a backend.
  Task<Met> MeetOpening();
  Task<void> RefuseTls(std::string_view reason);
  void LogBrokenTunnel(std::string_view what, std::string_view reason);
  std::string WhyMisdirected() const;
  // Connects, answers if that is still to be done, and passes bytes until both sides end. False.
  enum class Told : std::uint8_t { kNo, kYes };
  Task<bool> RunBlindTunnel(Authority target, TunnelDecision decision, Told told);
  // Why the other end of a blind tunnel must not be reached so; empty: it may be.
  Task<std::string> WhyAlias(const Authority& target, std::string peer, MonoTime deadline);
  Tunnel::Verdict JudgeBlindOpening(const Authority& target, std::string_view bytes);
  Task<void> RunThrough(Tunnel& tunnel);
  void CountTunnel(std::string_view decision);

  // redirected.cpp: connections whose client meant to reach somebody else.
  // Whom the client wants by what it has said first, at the port that it connected to.
  Authority RedirectedTarget(const FirstBytes& first) const;
  // The authority that a request names, at that port; empty: it cannot be read.
  std::string RedirectedAuthority() const;
  std::string WhyElsewhere() const;
  Task<bool> TunnelRedirected(std::string authority);

  Task<bool> Route(std::string_view authority, std::string_view path, std::string_view query);
  Task<bool> RouteTo(McpPlace place, std::string_view path, std::string_view query);
  Task<bool> RefuseChanged();

  // The read lane. True: the connection may serve another request.
  Task<bool> RelayRead(const RouteMatch& match, std::string_view query, McpRead* mcp = nullptr);
  struct ReadExchange;
  Task<Result<void>> PassInterim(ReadExchange& exchange);
  Task<bool> RunTunnel(ReadExchange& exchange);
  bool RenderReadHead(ReadExchange& exchange, const RouteMatch& match, std::string_view query);
  Task<Result<void>> AttemptRead(ReadExchange& exchange);
  Result<void> JudgeAttempt(ReadExchange& exchange, Result<void> got, bool saw_bytes) const;
  Task<void> Upload(ReadExchange& exchange);
  Task<bool> RelayResponse(ReadExchange& exchange);
  Task<bool> ReplaceAnswer(ReadExchange& exchange, std::string_view detail);
  HttpResponse AnswerFailure(const ReadExchange& exchange, const Error& error) const;
  bool RenderResponseHead(ReadExchange& exchange, char* out, std::size_t* size);
  Task<bool> SendPiece(ReadExchange& exchange, std::string_view head,
                       const BodyDecoder::Piece& piece);
  void MeetMcpAnswer(ReadExchange& exchange);
  void MeetEvents(ReadExchange& exchange);
  void AwaitEvents(ReadExchange& exchange, MonoTime now);
  void LimitQuiet(ReadExchange& exchange);
  BodyDecoder::Piece EndOf(ReadExchange& exchange, const BodyDecoder& decoder);
  Millis QuietMax(const ReadExchange& exchange) const;
  MonoTime FirstLook(const ReadExchange& exchange, MonoTime now) const;
  MonoTime AnswerDue(const ReadExchange& exchange, MonoTime now) const;
  Task<bool> EndUnanswered(ReadExchange& exchange, Error error);
  void EndTry(const ReadExchange& exchange, const Result<void>& got);
  void StartWatch(ReadExchange& exchange);
  Task<void> WatchClient(ReadExchange& exchange);
  Task<bool> StopUpload(ReadExchange& exchange);
  Task<bool> EndSides(ReadExchange& exchange);
  bool FinishRead(ReadExchange& exchange, bool relayed, bool whole);

  // mcp_lane.cpp: the endpoint of an MCP server.
  struct McpWrite {
    McpRequest request;
    std::string body;
    Headers headers;  // a snapshot, as of any write
    Held& held;
    bool is_denied;
  };
  Task<bool> ServeMcp(const Backend& backend, std::string_view query);
  Task<bool> ServeMcpPost(RouteMatch match, std::string query);
  Task<bool> ServeMcpWrite(RouteMatch match, std::string query, McpWrite write);
  Task<bool> AnswerMcpWrite(const McpRequest& request, const AgentSide& side, WriteAnswer answer,
                            std::optional<AttemptId> answers, AgentStream& stream);
  Task<bool> RefuseMcp(ErrorCode code, std::string detail);
  void NoteIds(const Backend& backend, const std::string& session,
               const std::vector<McpRequest>& requests);
  McpDecision DecideMcpCall(const Backend& backend, const std::vector<McpRequest>& requests);
  void NoteMcp(const RouteMatch& match, const McpRequest& request);
  void Resume(const RequestState& state, RequestContext& context);
  std::string NextState(const McpRequest& request, const StateScope& scope,
                        const std::optional<RequestState>& last, const RequestContext& context);
  void Learn(McpRead& read, const Backend& backend);
  Task<bool> ServeMcpStream(const RouteMatch& match, std::string_view query);
  void TakeLate(const Backend& backend, std::string_view piece);
  void JudgeObservedMcp();
  void ObserveRequest(const BodyDecoder::Piece& piece);

  // Observe mode: everything takes the read lane.
  Task<bool> ServeObserved(McpPlace place, std::string_view path, std::string_view query);
  Task<bool> ServeObservedMcp(const Backend& backend, std::string_view query);
  void StartObservation(const RouteMatch& match, std::string_view query,
                        const std::optional<CallRefusal>& refusal);
  // What enforce would have said to the call.
  void NoteRefusal(std::string_view path, const CallRefusal& refusal);
  void NoteFormOverride(std::string_view reason);

  // The write lane.
  Task<bool> ServeWrite(const RouteMatch& match, std::string_view query, bool guarded);
  void FillContext(const RouteMatch& match, std::string_view query, bool guarded,
                   RequestContext& context);
  Task<Result<std::string>> ReadWriteBody(Held& held);
  Task<bool> EndStream(AnswerStream& stream, const WriteAnswer& answer,
                       std::optional<AttemptId> answers);
  std::unexpected<Error> NoRoom();
  // Whose part of the budget its calls take: a name that costs nothing earns no other one.
  std::string Payer() const;
  static WriteAnswer ToAnswer(Result<Outcome> outcome);
  void NoteWrite(const RequestContext& context, const WriteAnswer& answer);
  Task<bool> SendAnswer(const HttpResponse& response, bool keep);

  // The client has one deadline for both directions, and what is due first ends both: while its
  // body streams, what is sent to it has its own time, and neither puts off the other's.
  void LimitTaking(Millis most);
  void EndTaking();
  void LimitClient();

  // Answers with a problem of ours; `allow` is what a 405 names. False when the connection must
  // close.
  Task<bool> Refuse(ErrorCode code, std::string detail, std::string allow = {});
  Task<bool> AnswerOptions(std::string allow);
  Task<bool> ServePoll(std::string id);
  std::optional<std::uint64_t> ReadPoll(const std::string& id) const;
  Task<bool> AnswerHere(const HttpResponse& response, bool understood);
  // False: the client has not taken it whole, and must be sent nothing more.
  Task<bool> Continue100();
  // The client must not take what it has for all, even where only the close would tell.
  void ShowCut();
  // Lets the client read the last answer before the connection goes: a reset would take it away.
  Task<void> Linger();
  // What the client's socket says without reading from it.
  enum class Peer : std::uint8_t { kSilent, kSpeaks, kClosed, kReset };
  Peer LookAtClient();
  bool HasLeft() const override { return HasHungUp(POLLHUP | POLLERR); }
  bool MayHaveLeft() const override { return HasHungUp(POLLHUP | POLLERR | POLLRDHUP); }
  bool HasHungUp(int how) const;
  // Whether an answer that went out whole has come to a client.
  Task<bool> HasTaken();
  void MarkAnswered(AttemptId answered);

  // No further request is served on this connection.
  bool IsLast() const {
    return services_.draining || served_ + 1 >= services_.bounds.requests_per_connection_max;
  }

  // who_calls.cpp
  void Identify();
  // Why no write may be made; empty: its caller is known.
  std::string WhyNobody() const;
  void CountUnknownCaller();

  // call_span.cpp
  void BeginSpan();
  void AddTraceparent(ReadExchange& exchange, HeadWriter& writer);
  void BeginTrySpan(ReadExchange& exchange);
  void EndSpan(MonoTime ended);

  void BeginRecord();
  void EndRecord();
  MonoTime Now() const { return worker_.thread.clock().Now(); }

  Worker& worker_;
  Services& services_;
  std::shared_ptr<PolicyView> view_;  // of the request at work; an idle connection holds none
  ConnectionGate::Place place_;
  const std::optional<Tcp::endpoint> original_;  // of a redirected connection
  const std::string original_text_;
  Connection client_;
  ReadBuffer in_;
  Head head_;
  std::string head_copy_;  // that head_ is of, where the buffer's is read over
  std::string scratch_;
  RouteMatch match_;      // of the request at work; its path may lie in scratch_
  std::string identity_;  // of the agent's certificate
  bool is_certified_ = false;
  std::string caller_;  // of the request at work: that identity, unless `callers` says more
  Caller who_;          // where it does
  RequestRecord record_;
  struct CallSpan {
    bool is_on = false;       // the call is traced
    bool is_clients = false;  // the trace is the client's
    TraceIdText trace;        // empty: traces are off, or the client does not want this one
    SpanIdText id, parent;
    char flags[3] = {};
  };
  CallSpan span_;
  std::unique_ptr<LateTap> late_;          // of a stream of MCP that is taken up again
  std::shared_ptr<Observation> observed_;  // of a write of observe mode
  bool is_observing_ = false;              // the policy of this request says observe
  bool judges_body_ = false;               // what is observed is MCP, whose body says what it is
  bool sends_once_ = false;                // a fresh connection, and no second attempt
  static constexpr MonoTime kNotDue = MonoTime::max();
  MonoTime body_due_ = kNotDue;  // when more of a body that streams must have come
  MonoTime take_due_ = kNotDue;  // when the client must have taken what is being sent
  // Whose answer went out last, until the client shows that it goes on.
  std::optional<AttemptId> unread_;
  MonoTime started_{};
  MonoTime last_{};  // not zero: the present, as nothing was awaited since
  std::size_t served_ = 0;
  int forwards_left_ = -1;    // Max-Forwards for the next hop; -1: none
  Tunnel* tunnel_ = nullptr;  // while one runs
  ReadExchange* waits_for_events_ = nullptr;
  std::optional<Inside> inside_;  // a tunnel to a backend, from its CONNECT to the connection's end
  bool meets_opening_ = false;    // first bytes of a tunnel, or of who was redirected, are awaited
  std::optional<std::size_t> intercepted_at_;  // value of served_ when TLS in the tunnel began
  bool idle_ = false;
  bool leaving_ = false;  // its place is somebody else's already
  bool linger_ = false;
  bool cut_ = false;  // the last answer did not go out whole, and the client must see that
};

}  // namespace recourse
