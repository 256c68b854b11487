// The answer of an MCP write that has begun to stream: what the server says before its final
// message goes to the waiting client at once.
#pragma once

#include <string>
#include <string_view>

#include "filters/upstream.h"
#include "proxy/net/io.h"

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
      : client_(client), clock_(clock), wire_(wire) {}

  Task<void> Pass(std::string_view event) override;
  // The answer has begun: only events can follow.
  bool has_begun() const { return has_begun_; }
  // Another request may be served after it, by its framing.
  bool keeps() const { return wire_.keeps && wire_.is_chunked; }
  // Sends the last event and ends the answer. Call once, if it has begun, before the stream goes.
  // True: the client took all of it.
  Task<bool> End(std::string event);
  std::size_t bytes() const { return bytes_; }

 private:
  void Begin();
  void Enqueue(std::string_view event);
  Task<void> Drain();

  Connection& client_;
  const Clock& clock_;
  const Wire wire_;
  std::string queue_;
  std::string held_back_;          // events without a message that came before the first with one
  Promise<bool>* idle_ = nullptr;  // who waits for the end of the draining
  std::size_t bytes_ = 0;
  bool has_begun_ = false;
  bool is_draining_ = false;
  bool is_gone_ = false;
};

}  // namespace recourse
