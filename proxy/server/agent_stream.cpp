#include "proxy/server/agent_stream.h"

#include <fmt/format.h>

#include "proxy/base/mcp_limits.h"
#include "proxy/net/http_head.h"

namespace recourse {
namespace {

constexpr std::size_t kHeadRoom = 512;

}  // namespace

void AgentStream::Begin() {
  has_begun_ = true;
  char head[kHeadRoom];
  HeadWriter writer(head, sizeof head);
  writer.StartResponse(200, "OK");
  writer.Add("Content-Type", "text/event-stream");
  writer.Add("Cache-Control", "no-cache");
  if (wire_.is_chunked) writer.Chunked();
  if (!wire_.keeps || !wire_.is_chunked) writer.ConnectionClose();
  writer.End();
  queue_.append(writer.view());
}

void AgentStream::Enqueue(std::string_view event) {
  if (event.empty()) return;
  if (wire_.is_chunked) queue_ += fmt::format("{:x}\r\n", event.size());
  queue_.append(event);
  if (wire_.is_chunked) queue_ += "\r\n";
}

Task<void> AgentStream::Pass(std::string_view event) {
  if (is_gone_) co_return;
  // What has no message is no reason to begin: an answer that comes alone tells more.
  if (!has_begun_ && event.find('{') == std::string_view::npos) {
    if (held_back_.size() + event.size() <= limits::kMcpQueuedBytesMax) held_back_.append(event);
    co_return;
  }
  if (queue_.size() + event.size() > limits::kMcpQueuedBytesMax) {
    is_gone_ = true;
    std::string().swap(queue_);
    co_return;
  }
  if (!has_begun_) {
    Begin();
    Enqueue(std::exchange(held_back_, {}));
  }
  Enqueue(event);
  if (!is_draining_) {
    is_draining_ = true;
    Spawn(Drain(), [] {});
  }
}

Task<void> AgentStream::Drain() {
  while (!queue_.empty() && !is_gone_) {
    const std::string sending = std::exchange(queue_, {});
    client_.deadline.Arm(clock_.Now() + wire_.send_timeout);
    if (!co_await WriteAll(client_, {sending})) is_gone_ = true;
    client_.deadline.Disarm();
    bytes_ += sending.size();
  }
  is_draining_ = false;
  if (idle_ != nullptr) idle_->Set(true);
}

Task<bool> AgentStream::End(std::string event) {
  Promise<bool> idle;
  if (!is_gone_) {
    Enqueue(event);
    if (wire_.is_chunked) queue_ += "0\r\n\r\n";
  }
  if (is_draining_) {
    idle_ = &idle;
    co_await idle.Wait();
    idle_ = nullptr;
  } else {
    co_await Drain();
  }
  co_return !is_gone_;
}

}  // namespace recourse
