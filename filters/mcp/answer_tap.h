// Looks at the answer of an MCP read as it passes: whether each request of it got its final
// message, and what tools/list, tasks/get and tasks/result say. Copies what it needs, delays
// nothing. Pure, bounded.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/mcp/mcp_request.h"
#include "filters/mcp/sse_reader.h"

namespace recourse {

class AnswerTap {
 public:
  explicit AnswerTap(const std::vector<McpRequest>& requests);

  // Once, before the pieces.
  void Head(int status, std::string_view content_type, bool is_encoded);
  void Take(std::string_view piece);
  // There are no more.
  void Finish();

  // The stream is over. What its client has still to be told, as server-sent events, so that it
  // does not wait for its own timeout: an error for every request without an answer. Nothing where
  // the client can go on by itself: in the older protocol, when the events had ids.
  std::string Ending() const;

  // The answers to tools/list that have come whole; each once.
  std::vector<Json> TakeLists();
  // The same of tasks/get and tasks/result.
  struct OfTask {
    std::string method, task, message;
  };
  std::vector<OfTask> TakeTasks();

 private:
  void TakeMessage(std::string_view text);
  std::string EndOfCutEvent() const;

  std::vector<std::string> waiting_;  // ids without a final message
  std::string list_id_;               // of tools/list; empty: it was not asked
  std::vector<Json> lists_;
  std::map<std::string, OfTask> asked_;  // about tasks, by id
  std::vector<OfTask> told_;
  SseReader events_;
  std::string body_;  // of a JSON answer to either
  bool is_stream_ = false, is_json_ = false;
  bool may_resume_ = false, has_event_ids_ = false;
  char last_ = '\n';  // byte of a stream
};

}  // namespace recourse
