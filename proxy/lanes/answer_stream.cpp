#include "proxy/lanes/answer_stream.h"

#include "filters/answer_form.h"
#include "filters/call/answers.h"
#include "filters/key/event_answer.h"

namespace recourse {

bool AnswerStream::Takes(const HttpResponse& head, std::optional<std::uint64_t> length) {
  if (!PassesAsItComes(context_.tool, head) || context_.dispatching == nullptr) return false;
  HttpResponse told{head.status, head.reason, head.headers, {}};
  StripOwnFields(told.headers);
  DecorateBegun(*context_.dispatching, told);
  status_ = head.status;
  return reply_.Begin(told, length, /*may_keep=*/true);
}

Task<void> AnswerStream::Pass(std::string_view piece, std::size_t queued_max) {
  if (!has_begun()) stream_.Begin();
  stream_.Put(std::exchange(last_, {}));
  if (EndsStream(piece)) {
    last_ = piece;
  } else {
    stream_.Put(piece);
  }
  co_await stream_.AwaitRoom(queued_max);
}

Task<bool> AnswerStream::End(ClientStream::How how) {
  if (how == ClientStream::How::kWhole) stream_.Put(std::exchange(last_, {}));
  return stream_.End(how);
}

}  // namespace recourse
