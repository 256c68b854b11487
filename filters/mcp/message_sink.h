// Finds the answer to one request in what an MCP server sends: JSON, or a stream of events.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "filters/answer_form.h"
#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/sse_reader.h"
#include "filters/upstream.h"

namespace recourse {

// One thread. Used again for each stream that goes on with the same answer.
class MessageSink final : public BodySink {
 public:
  // `id` as in McpRequest: whose response is the answer. `interim` is nullptr or outlives this.
  MessageSink(std::string id, InterimSink* interim, std::size_t answer_bytes_max)
      : id_(std::move(id)), interim_(interim), answer_bytes_max_(answer_bytes_max) {}

  // A new response to read; what was cut in the middle is forgotten.
  void Restart();
  Task<bool> Take(const HttpResponse& head, std::string_view piece) override;
  std::size_t kept() const override { return body_.size() + (events_ ? events_->pending() : 0); }
  void NoRoom() override { is_over_cap_ = true; }
  // The same with all of a body, which nobody waits for.
  void TakeWhole(const HttpResponse& head, std::string body);
  // The body has ended: looks for the answer in one that is no stream.
  void End(const HttpResponse& head);

  // The answer; nullopt: it has not come.
  const std::optional<FinalMessage>& final() const { return final_; }
  // A body that is no stream, as it came; cut when `is_over_cap`.
  std::string& body() { return body_; }
  bool is_over_cap() const { return is_over_cap_; }
  // Of the last event that had one, and what a stream asked to wait before it is taken up again.
  const std::string& last_event_id() const { return last_event_id_; }
  std::optional<std::chrono::milliseconds> retry() const { return retry_; }

 private:
  // True: it was the answer.
  bool IsAnswerEvent(const SseEvent& event);
  // True: `text` was the answer.
  bool IsAnswer(std::string text);

  const std::string id_;
  InterimSink* const interim_;
  const std::size_t answer_bytes_max_;
  std::optional<SseReader> events_;
  std::string body_;
  std::optional<FinalMessage> final_;
  std::string last_event_id_;
  std::optional<std::chrono::milliseconds> retry_;
  bool is_over_cap_ = false;
  bool is_readable_ = true;  // what was looked at last
  std::size_t interim_messages_ = 0, interim_bytes_ = 0;
};

}  // namespace recourse
