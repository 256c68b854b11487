// Whatever a backend answers is classified, and only proof ever says that nothing happened.
// Input: two bytes of status and flags, a content type, a blank line, the body.
#include <string>

#include "filters/call/call_values.h"
#include "filters/call/outcome.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {
namespace {

Tool MakeTool() {
  Tool tool;
  tool.name = "orders.create";
  tool.success_when.push_back(*ParseCondition("answer.body#/ok == true"));
  tool.external_ref = *ParseSelector("answer.body#/id");
  tool.not_executed = *ParseStatuses({"503"});
  return tool;
}

Answer MakeAnswer(std::string_view in) {
  Answer answer;
  const auto first = static_cast<unsigned char>(in[0]);
  const auto flags = static_cast<unsigned char>(in[1]);
  answer.response.status = 100 + first * 4 + (flags & 3);
  answer.body_complete = (flags & 4) == 0;
  answer.until_close = (flags & 8) != 0;
  answer.over_cap = (flags & 16) != 0;
  in.remove_prefix(2);
  const auto line = std::min(in.find('\n'), in.size());
  answer.response.headers.emplace_back("Content-Type", std::string(in.substr(0, line)));
  if ((flags & 32) != 0) answer.response.headers.emplace_back("Content-Encoding", "gzip");
  if ((flags & 64) != 0) answer.response.headers.emplace_back("Content-Encoding", "deflate");
  answer.response.body = in.substr(std::min(line + 1, in.size()));
  return answer;
}

void Check(std::string_view in) {
  static const Tool tool = MakeTool();
  const Result<Answer> result = MakeAnswer(in);
  const std::optional<Json> body = ReadAnswerBody(*result);
  CallValues values;
  values.answer_status = result->response.status;
  values.answer_headers = &result->response.headers;
  values.answer_body = body ? &*body : nullptr;
  const Verdict verdict = Classify(tool, result, values);
  const int status = result->response.status;
  // Success needs a 2xx whose condition was seen to hold.
  if (verdict.phase == Phase::kSucceeded) {
    RC_CHECK(status >= 200 && status < 300 && body && result->body_complete);
  }
  if (verdict.phase == Phase::kNotSent || verdict.phase == Phase::kRejected) {
    RC_CHECK(status != 200 && status != 500 && status != 502 && status != 504);
  }
  Event dispatching;
  dispatching.operation = 7;
  dispatching.attempt = 1;
  const Transition move = MakeTransition(dispatching, verdict, tool, result, values);
  RC_CHECK(IsLegal(move.from, move.to));
  RC_CHECK(move.external_ref.size() <= limits::kExternalRefBytesMax);
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  if (bytes.size() >= 2) Check(bytes);
}

}  // namespace recourse
