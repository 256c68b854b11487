// What callers of writes are told: problems of ours, and the fields that every answer to
// a write carries. Needs nothing but values, so the read lane uses it too.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "filters/call_context.h"
#include "proxy/base/error.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// What an answer says about its operation. Everything may stay unset.
struct ProblemFacts {
  std::uint64_t event = 0;  // id of the latest event; 0: none was written
  std::string flow;
  std::string key;                      // hex
  std::optional<int> status;            // instead of the code's own status
  std::optional<ErrorCode> speaks_for;  // outcome, retryable and advice come from this code
  std::string_view outcome;             // instead of the code's own word
  std::string_view proxy_error;         // instead of the code's own RFC 9209 token
  int received_status = 0;              // what the backend said, 0: nothing
  std::optional<int> retry_after_s;
  std::string_view advice;  // instead of the code's own
  // Nothing finds out what became of the call: no repeat is worth it, and SDKs are told so.
  bool never_settles = false;
};

// As one text of sentences, each of them once.
std::string JoinSentences(std::initializer_list<std::string_view> sentences);

// Tells the SDKs that look for it whether to repeat the call by themselves.
void AddShouldRetry(Headers& headers, bool should_retry);

// The application/problem+json text. `detail` is for people, of any origin; bounded and escaped.
std::string ProblemBody(ErrorCode code, std::string_view detail, const ProblemFacts& facts = {});

// The whole answer: problem body, Proxy-Status, Recourse-* fields, Retry-After. Every problem of a
// retryable code carries Retry-After, 1 s unless `facts` says otherwise.
WriteAnswer MakeProblem(ErrorCode code, std::string_view detail, const ProblemFacts& facts = {});

// What a stored or passed-on answer of a backend says about its operation. Empty fields are left
// out. A `doubt` says in Proxy-Status why the outcome is not known.
enum class AnswerSource : std::uint8_t { kBackend, kReplay };
struct AnswerFacts {
  std::uint64_t event = 0;
  std::string flow;
  std::string key;  // hex
  std::string_view outcome;
  AnswerSource origin = AnswerSource::kBackend;
  std::string_view doubt{};
};
void Decorate(HttpResponse& response, const AnswerFacts& facts);

// True for field names that only this proxy may write, and for fields that would make a proxy in
// front of us fetch something else.
bool IsOwnField(std::string_view name);

// Removes every field for which IsOwnField holds. Called on every answer of a backend.
void StripOwnFields(Headers& headers);

}  // namespace recourse
