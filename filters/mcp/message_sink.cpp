#include "filters/mcp/message_sink.h"

#include <algorithm>

#include "proxy/base/http/content_coding.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

// Servers of before 2025-06-18 may answer with a batch of one.
const Json* ResponseIn(const Json& json, std::string_view id, std::string& at) {
  if (json.kind != Json::Kind::kArray) return IsMcpResponse(json, id) ? &json : nullptr;
  for (std::size_t i = 0; i < json.items.size(); ++i) {
    if (!IsMcpResponse(json.items[i], id)) continue;
    at = "/" + std::to_string(i);
    return &json.items[i];
  }
  return nullptr;
}

bool IsCoded(const HttpResponse& head) {
  const std::string* const coding = FindHeader(head.headers, "Content-Encoding");
  return coding != nullptr && !coding->empty() && !EqualsIgnoreCase(*coding, "identity");
}

Result<std::string> Decoded(const HttpResponse& head, const std::string& body) {
  return DecodeContent(*FindHeader(head.headers, "Content-Encoding"), body);
}

}  // namespace

void MessageSink::Restart() {
  events_.reset();
  body_.clear();
  is_over_cap_ = false;
}

Task<bool> MessageSink::Take(const HttpResponse& head, std::string_view piece) {
  if (!IsEventStream(head)) {
    const std::size_t room = answer_bytes_max_ - body_.size();
    body_.append(piece.substr(0, room));
    is_over_cap_ = piece.size() > room;
    co_return !is_over_cap_;
  }
  if (!events_) events_.emplace(answer_bytes_max_ + limits::kEventFramingBytesMax);
  events_->Feed(piece);
  while (auto event = events_->Next()) {
    if (IsAnswerEvent(*event)) co_return false;
    interim_bytes_ += event->raw.size();
    const bool fits = ++interim_messages_ <= limits::kInterimMessagesMax &&
                      interim_bytes_ <= limits::kMcpInterimBytesMax;
    // Unreadable here, it may still be the answer to others, which is not known to have come.
    if (interim_ != nullptr && fits && is_readable_) co_await interim_->Pass(event->raw);
  }
  is_over_cap_ = events_->overflowed();
  co_return !is_over_cap_;
}

bool MessageSink::IsAnswerEvent(const SseEvent& event) {
  if (!event.id.empty()) last_event_id_ = event.id;
  if (event.retry) retry_ = event.retry;
  is_readable_ = true;
  return !event.data.empty() && IsAnswer(event.data);
}

void MessageSink::TakeWhole(const HttpResponse& head, std::string body) {
  if (!IsEventStream(head)) {
    body_ = std::move(body);
    End(head);
    return;
  }
  if (IsCoded(head)) body = Decoded(head, body).value_or(std::string());
  SseReader events(body.size());
  events.Feed(body);
  while (auto event = events.Next()) {
    if (IsAnswerEvent(*event)) return;
  }
}

void MessageSink::End(const HttpResponse& head) {
  if (final_ || is_over_cap_ || IsEventStream(head)) return;
  if (!IsCoded(head)) {
    (void)IsAnswer(body_);
  } else if (auto decoded = Decoded(head, body_)) {
    (void)IsAnswer(std::move(*decoded));
  }
}

bool MessageSink::IsAnswer(std::string text) {
  const auto json = ReadMcpJson(text);
  is_readable_ = json.has_value();
  if (!json) return false;
  std::string at;
  const Json* const response = ResponseIn(*json, id_, at);
  if (response == nullptr) return false;
  const JsonSpan span = *FindJsonSpan(text, at);
  final_ = ReadMcpFinal(*response, std::string_view(text).substr(span.at, span.size));
  return true;
}

}  // namespace recourse
