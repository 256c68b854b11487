#include "proxy/mcp/event_reply.h"

#include "proxy/base/check.h"
#include "proxy/base/message_limits.h"

namespace recourse {

void EventReply::Begin() {
  const HttpResponse head{
      200, "OK", {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-cache"}}, {}};
  RC_CHECK(reply_.Begin(head, std::nullopt, /*may_keep=*/true));
  stream_.Begin();
}

Task<void> EventReply::Pass(std::string_view event) {
  if (stream_.is_gone()) co_return;
  // What has no message is no reason to begin: an answer that comes alone tells more.
  if (!has_begun() && event.find('{') == std::string_view::npos) {
    if (held_back_.size() + event.size() <= limits::kQueuedBytesMax) held_back_.append(event);
    co_return;
  }
  if (stream_.queued() + event.size() > limits::kQueuedBytesMax) {
    stream_.GiveUp();
    co_return;
  }
  if (has_begun()) {
    stream_.Put(event);
    co_return;
  }
  Begin();
  stream_.Put(std::exchange(held_back_, {}).append(event));
}

Task<bool> EventReply::End(std::string event) {
  stream_.Put(event);
  co_return co_await stream_.End(ClientStream::How::kWhole);
}

}  // namespace recourse
