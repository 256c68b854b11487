// The answer of an MCP write that has begun to stream: what the server says before its final
// message goes to the waiting client at once.
#pragma once

#include <string>
#include <string_view>

#include "filters/upstream.h"
#include "proxy/lanes/client_stream.h"

namespace recourse {

// Belongs to one session and one write. Never holds the write up: what the client does not take is
// kept up to a bound, then nothing more is sent to it and it counts as gone.
class AgentStream final : public InterimSink {
 public:
  struct Wire {
    Millis send_timeout{};
    bool is_chunked = true;  // HTTP/1.1
    bool keeps = true;       // the connection may serve another request
  };
  AgentStream(Connection& client, const Clock& clock, Wire wire)
      : stream_(client, clock, wire.send_timeout), wire_(wire) {}

  Task<void> Pass(std::string_view event) override;
  // The answer has begun: only events can follow.
  bool has_begun() const { return stream_.has_begun(); }
  // Another request may be served after it, by its framing.
  bool keeps() const { return wire_.keeps && wire_.is_chunked; }
  // Sends the last event and ends the answer. Call once, if it has begun, before the stream goes.
  // True: the client took all of it.
  Task<bool> End(std::string event);
  std::size_t bytes() const { return stream_.bytes(); }

 private:
  void Begin();

  ClientStream stream_;
  const Wire wire_;
  std::string held_back_;  // events without a message that came before the first with one
};

}  // namespace recourse
