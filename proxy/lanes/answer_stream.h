// The answer of a write that goes on to its client while the backend is still making it. Its end is
// held back until the outcome is durable: a client that has all of it may build on it.
#pragma once

#include <optional>
#include <string>

#include "filters/call_context.h"
#include "proxy/lanes/client_stream.h"

namespace recourse {

// Belongs to one write, `context`, which outlives it.
class AnswerStream final : public AnswerRelay {
 public:
  AnswerStream(Reply& reply, const Clock& clock, const RequestContext& context, Millis send_timeout)
      : reply_(reply), stream_(reply, clock, send_timeout), context_(context) {}

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

 private:
  Reply& reply_;
  ClientStream stream_;
  const RequestContext& context_;
  std::string last_;  // which it may prove not to be
  int status_ = 0;
};

}  // namespace recourse
