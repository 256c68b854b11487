#include "proxy/lanes/agent_stream.h"

#include "proxy/base/mcp_limits.h"
#include "proxy/net/http1/http_head.h"

namespace recourse {
namespace {

constexpr std::size_t kHeadRoom = 512;

}  // namespace

void AgentStream::Begin() {
  char head[kHeadRoom];
  HeadWriter writer(head, sizeof head);
  writer.StartResponse(200, "OK");
  writer.Add("Content-Type", "text/event-stream");
  writer.Add("Cache-Control", "no-cache");
  if (wire_.is_chunked) writer.Chunked();
  if (!wire_.keeps || !wire_.is_chunked) writer.ConnectionClose();
  writer.End();
  using Framing = ClientStream::Framing;
  stream_.Begin(writer.view(), wire_.is_chunked ? Framing::kChunked : Framing::kUntilClose);
}

Task<void> AgentStream::Pass(std::string_view event) {
  if (stream_.is_gone()) co_return;
  // What has no message is no reason to begin: an answer that comes alone tells more.
  if (!has_begun() && event.find('{') == std::string_view::npos) {
    if (held_back_.size() + event.size() <= limits::kMcpQueuedBytesMax) held_back_.append(event);
    co_return;
  }
  if (stream_.queued() + event.size() > limits::kMcpQueuedBytesMax) {
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

Task<bool> AgentStream::End(std::string event) {
  stream_.Put(event);
  co_return co_await stream_.End(ClientStream::How::kWhole);
}

}  // namespace recourse
