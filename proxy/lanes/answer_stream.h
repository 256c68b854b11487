// The answer of a write that goes on to its client while the backend is still making it. Its end is
// held back until the outcome is durable: a client that has all of it may build on it.
#pragma once

#include <optional>
#include <string>

#include "filters/context.h"
#include "proxy/lanes/client_stream.h"
#include "proxy/net/http1/http_head.h"

namespace recourse {

// Belongs to one session and one write, `context`, which outlives it.
class AnswerStream final : public AnswerRelay {
 public:
  struct Wire {
    Millis send_timeout{};
    bool is_http10 = false;
    bool keeps = true;  // the connection may serve another request
  };
  AnswerStream(Connection& client, const Clock& clock, const RequestContext& context, Wire wire)
      : stream_(client, clock, wire.send_timeout), context_(context), wire_(wire) {}

  bool Takes(const HttpResponse& head, std::optional<std::uint64_t> length) override;
  Task<void> Pass(std::string_view piece, std::size_t queued_max) override;
  void Keep(std::string_view last) override { last_ += last; }
  std::size_t held() const override { return stream_.queued() + last_.size(); }

  // Something of it has gone out, so that no other answer can.
  bool has_begun() const { return stream_.has_begun(); }
  int status() const { return status_; }
  // Lets what was kept follow, or shows the client that there is no end. Call once, if it has
  // begun, before it goes. True: the client took all of it.
  Task<bool> End(ClientStream::How how);
  bool ends_with_connection() const { return framing_ == ClientStream::Framing::kUntilClose; }
  bool keeps() const { return wire_.keeps && !ends_with_connection(); }
  std::size_t bytes() const { return stream_.bytes(); }

 private:
  ClientStream stream_;
  const RequestContext& context_;
  const Wire wire_;
  std::string head_, last_;  // last_ may prove not to be
  ClientStream::Framing framing_ = ClientStream::Framing::kChunked;
  int status_ = 0;
};

}  // namespace recourse
