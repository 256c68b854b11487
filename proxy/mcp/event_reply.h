// The answer of an MCP write that has begun to stream: what the server says before its final
// message goes to the waiting client at once.
#pragma once

#include <string>
#include <string_view>

#include "filters/upstream.h"
#include "proxy/lanes/client_stream.h"

namespace recourse {

// Belongs to one write. Never holds it up: what the client does not take is kept up to a bound,
// then nothing more is sent to it and it counts as gone.
class EventReply final : public InterimSink {
 public:
  EventReply(Reply& reply, const Clock& clock, Millis send_timeout)
      : reply_(reply), stream_(reply, clock, send_timeout) {}

  Task<void> Pass(std::string_view event) override;
  // The answer has begun: only events can follow.
  bool has_begun() const { return stream_.has_begun(); }
  // Sends the last event and ends the answer. Call once, if it has begun, before the stream goes.
  // True: the client took all of it.
  Task<bool> End(std::string event);

 private:
  void Begin();

  Reply& reply_;
  ClientStream stream_;
  std::string held_back_;  // events without a message that came before the first with one
};

}  // namespace recourse
