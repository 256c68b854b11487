// One client connection: reads heads, decides the lane by policy, answers in order.
//
// session.cpp reads and classifies, read_lane.cpp relays reads, write_lane.cpp runs writes through
// the filter chain. A write is never canceled because its client went away: the session goes on
// until the outcome is recorded.
#pragma once

#include <string>
#include <string_view>

#include "policy/route_table.h"
#include "proxy/net/body_decoder.h"
#include "proxy/net/http_head.h"
#include "proxy/server/services.h"

namespace recourse {

class Session {
 public:
  Session(Worker& worker, TcpSocket socket);

  // Serves requests until either side closes or a bound is reached.
  Task<void> Run();
  // Ends a session that waits for its next request; others end after the current one.
  void Drain();
  FrameArena& frames() { return worker_.thread.frames(); }

 private:
  Task<bool> ReadHead();
  Task<bool> ReadMoreHead(bool* idle);
  Task<bool> Serve();
  Task<bool> Route(std::string_view authority, std::string_view path, std::string_view query);

  // The read lane. True: the connection may serve another request.
  Task<bool> RelayRead(const RouteMatch& match, std::string_view query);
  struct ReadExchange;
  bool RenderReadHead(ReadExchange& exchange, const RouteMatch& match, std::string_view query);
  Task<Result<void>> AttemptRead(ReadExchange& exchange);
  Task<void> Upload(ReadExchange& exchange);
  Task<bool> RelayResponse(ReadExchange& exchange);
  bool RenderResponseHead(ReadExchange& exchange, char* out, std::size_t* size);
  Task<bool> SendPiece(ReadExchange& exchange, std::string_view head,
                       const BodyDecoder::Piece& piece);
  Task<void> WatchClient(ReadExchange& exchange);
  Task<bool> StopUpload(ReadExchange& exchange);
  Task<bool> FinishRead(ReadExchange& exchange, bool relayed);

  // The write lane.
  Task<bool> ServeWrite(const RouteMatch& match, std::string_view query, bool guarded);
  void FillContext(const RouteMatch& match, std::string_view query, bool guarded,
                   RequestContext& context);
  Task<Result<std::string>> ReadWriteBody();
  void NoteWrite(const RequestContext& context, const WriteAnswer& answer);
  Task<bool> SendAnswer(const HttpResponse& response, bool keep);

  // Answers with a problem of ours. False when the connection must close.
  Task<bool> Refuse(ErrorCode code, std::string detail);
  Task<bool> Continue100();
  // Lets the client read the last answer before the connection goes (http.md C4).
  Task<void> Linger();
  // What the client's socket says without reading from it.
  enum class Peer : std::uint8_t { kThere, kClosed, kReset };
  Peer LookAtClient();

  void BeginRecord();
  void EndRecord();
  MonoTime Now() const { return worker_.thread.clock().Now(); }

  Worker& worker_;
  Services& services_;
  Connection client_;
  ReadBuffer in_;
  Head head_;
  std::string scratch_;
  RequestRecord record_;
  MonoTime started_{};
  std::size_t served_ = 0;
  bool idle_ = false;
  bool linger_ = false;
};

}  // namespace recourse
