#include "filters/mcp/answer_tap.h"

#include "filters/mcp/agent_reply.h"
#include "filters/mcp/mcp_answer.h"
#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

constexpr int kCutCode = 502;
constexpr std::string_view kCutText =
    "The server's answer ended before it was complete. Nothing was changed; the same call may be "
    "made again.";

}  // namespace

AnswerTap::AnswerTap(const std::vector<McpRequest>& requests) : events_(limits::kTapBytesMax) {
  for (const McpRequest& request : requests) {
    if (request.id.empty() || request.kind == McpRequest::Kind::kPass) continue;
    waiting_.push_back(request.id);
    may_resume_ = may_resume_ || request.era == McpEra::kLegacy;
    if (request.method == "tools/list") list_id_ = request.id;
    if (request.method == "tasks/get" || request.method == "tasks/result") {
      asked_[request.id] = {request.method, request.task, {}};
    }
  }
}

void AnswerTap::Head(int status, std::string_view content_type, bool is_encoded) {
  if (status != 200 || is_encoded) return;
  const std::string type = ToLower(content_type);
  is_stream_ = type.starts_with("text/event-stream");
  is_json_ = type.starts_with("application/json");
}

void AnswerTap::Take(std::string_view piece) {
  if (is_stream_) {
    if (!piece.empty()) last_ = piece.back();
    events_.Feed(piece);
    while (auto event = events_.Next()) {
      has_event_ids_ = has_event_ids_ || !event->id.empty();
      if (!event->data.empty()) TakeMessage(event->data);
    }
    return;
  }
  if (!is_json_ || (list_id_.empty() && asked_.empty())) return;
  if (body_.size() + piece.size() > limits::kTapBytesMax) {
    is_json_ = false;
    std::string().swap(body_);
    return;
  }
  body_.append(piece);
}

void AnswerTap::Finish() {
  if (is_json_ && !body_.empty()) TakeMessage(body_);
  std::string().swap(body_);
}

void AnswerTap::TakeMessage(std::string_view text) {
  auto message = ParseJson(text);
  if (!message) return;
  for (auto id = waiting_.begin(); id != waiting_.end(); ++id) {
    if (!IsMcpResponse(*message, *id)) continue;
    const bool is_list = *id == list_id_;
    if (auto about = asked_.extract(*id)) {
      about.mapped().message = text;
      told_.push_back(std::move(about.mapped()));
    }
    waiting_.erase(id);
    if (is_list) lists_.push_back(std::move(*message));
    return;
  }
}

std::string AnswerTap::Ending() const {
  std::string ending;
  if (!is_stream_ || (has_event_ids_ && may_resume_) || events_.overflowed()) return ending;
  for (const std::string& id : waiting_) {
    if (ending.empty() && events_.is_inside_event()) ending = EndOfCutEvent();
    ending += AsEvent(AgentError(id, kCutCode, kCutText));
  }
  return ending;
}

// Its name becomes one that no client listens for, or half a message would be read as one.
std::string AnswerTap::EndOfCutEvent() const {
  const bool is_inside_line = last_ != '\n' && last_ != '\r';
  return std::string(is_inside_line ? "\n" : "") + "event: cut\n\n";
}

std::vector<Json> AnswerTap::TakeLists() { return std::exchange(lists_, {}); }

std::vector<AnswerTap::OfTask> AnswerTap::TakeTasks() { return std::exchange(told_, {}); }

}  // namespace recourse
