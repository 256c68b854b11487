// A call to an MCP server that the filter chain runs, and what its agent is told.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "filters/mcp/agent_reply.h"
#include "filters/mcp/request_state.h"
#include "proxy/exchange/body_reservation.h"
#include "proxy/exchange/exchange.h"
#include "proxy/mcp/mcp_judgement.h"
#include "proxy/mcp/mcp_state.h"

namespace recourse {

class EventReply;

class McpWrite {
 public:
  // All outlive it. `headers` are a snapshot, as of any write.
  McpWrite(Exchange& exchange, CallClient& client, McpState& state, BodyReservation& room,
           ReadPost post, std::string body, Headers headers);

  Task<bool> Run(bool is_denied);

 private:
  Task<bool> Execute();
  std::optional<WriteAnswer> Refusal(bool is_denied);
  StateScope Scope() const;
  void FillCall(RequestContext& context);
  bool MayBeCanceledElsewhere() const;
  void Resume(RequestContext& context) const;
  std::string NextState(const RequestContext& context) const;
  std::string Content() const;
  Task<void> AwaitCancel(const CallsInFlight::Write& running);
  Task<bool> Answer(WriteAnswer answer, EventReply& stream);
  Task<bool> End(CallsInFlight::Write& running, bool kept, std::optional<AttemptId> answers);

  Exchange& exchange_;
  CallClient& client_;
  const UnheardClient unheard_{client_};
  ServedRequest& request_;
  McpState& shared_;
  BodyReservation& room_;
  McpRequest message_;
  std::string body_;
  const std::string session_;
  const Principal principal_;
  std::shared_ptr<const CallBody> reading_;
  ClientFacts side_;
  Headers fields_;                     // of the call, once
  std::optional<RequestState> state_;  // that the agent came back with
};

}  // namespace recourse
