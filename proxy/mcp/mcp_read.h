// One MCP read on its way: its body is here whole, and its answer is looked at as it passes.
#pragma once

#include <string>
#include <vector>

#include "filters/mcp/agent_reply.h"
#include "filters/mcp/answer_tap.h"
#include "filters/mcp/mcp_request.h"
#include "filters/mcp/sse_reader.h"
#include "proxy/exchange/body_reservation.h"
#include "proxy/exchange/served_request.h"
#include "proxy/lanes/read_tap.h"
#include "proxy/mcp/mcp_state.h"

namespace recourse {

// The session that a call is of; empty: none.
std::string SessionOf(const Headers& headers);

// A call as its client's session names it. `id` is JSON.
std::string NameOfCall(std::string_view caller, const Backend& backend, std::string_view session,
                       const Json& id);

class McpRead final : public ReadTap {
 public:
  // All outlive it.
  McpRead(const ServedRequest& request, ToolCatalog& tools, std::vector<McpRequest> messages,
          std::string body, const Headers& headers, BodyReservation& room)
      : request_(request),
        tools_(tools),
        messages_(std::move(messages)),
        body_(std::move(body)),
        side_(ReadAgentSide(headers)),
        session_(SessionOf(headers)),
        tap_(messages_),
        room_(room) {}

  const std::string* body() const override { return &body_; }
  bool TakeHead(int status, std::string_view content_type, bool is_encoded) override;
  std::string_view Take(const Piece& piece) override;
  bool TellsOfBreak() const override { return !tap_.Ending().empty(); }
  HttpResponse Failure(HttpResponse problem, ErrorCode code) const override;

 private:
  // What has passed tells of tools, and of calls that became tasks.
  void Learn();

  const ServedRequest& request_;
  ToolCatalog& tools_;
  const std::vector<McpRequest> messages_;  // more than one: a batch
  std::string body_;
  const ClientFacts side_;
  const std::string session_;  // empty: none
  AnswerTap tap_;
  BodyReservation& room_;
  std::string untold_;  // what a stream that broke off has not said
};

// A stream that a client takes up again: the answer to a call of unknown outcome may be in it.
class ResumedRead final : public ReadTap {
 public:
  // Both outlive it.
  ResumedRead(const ServedRequest& request, const LateCalls& late, std::string session)
      : request_(request), late_(late), session_(std::move(session)) {}

  bool TakeHead(int, std::string_view, bool) override { return true; }
  std::string_view Take(const Piece& piece) override;

 private:
  const ServedRequest& request_;
  const LateCalls& late_;
  const std::string session_;
  SseReader events_{limits::kTapBytesMax};
};

}  // namespace recourse
