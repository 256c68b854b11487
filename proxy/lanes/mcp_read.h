// One MCP read on its way: its body is here whole, and its answer is looked at as it passes.
#pragma once

#include <string>
#include <vector>

#include "filters/mcp/agent_reply.h"
#include "filters/mcp/answer_tap.h"
#include "filters/mcp/late_answers.h"
#include "proxy/exchange/body_reservation.h"
#include "proxy/exchange/served_request.h"

namespace recourse {

// The session that a call is of; empty: none.
std::string SessionOf(const Headers& headers);

// A call as its client's session names it. `id` is JSON.
std::string NameOfCall(std::string_view caller, const Backend& backend, std::string_view session,
                       const Json& id);

struct McpRead {
  McpRead(std::vector<McpRequest> of, std::string text, const Headers& headers,
          BodyReservation& reserved)
      : requests(std::move(of)),
        body(std::move(text)),
        side(ReadAgentSide(headers)),
        session(SessionOf(headers)),
        tap(requests),
        room(reserved) {}

  const std::vector<McpRequest> requests;  // more than one: a batch
  std::string body;
  const ClientFacts side;
  const std::string session;  // empty: none
  AnswerTap tap;
  BodyReservation& room;

  // It will not be sent again.
  void DropBody() {
    std::string().swap(body);
    room.Hold(HeldFor::kBody, 0);
  }
  // What has passed tells of tools, and of calls that became tasks.
  void Learn(const ServedRequest& request);
};

// The answer to a call of unknown outcome may be among what its client fetches by itself.
void TakeLate(const ServedRequest& request, ResumedStreamTap& late, std::string_view piece);

}  // namespace recourse
