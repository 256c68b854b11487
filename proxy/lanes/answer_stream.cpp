#include "proxy/lanes/answer_stream.h"

#include "filters/answer_form.h"
#include "filters/call/answers.h"
#include "filters/key/event_answer.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// With what a backend's head may not have itself.
constexpr std::size_t kStreamHeadBytesMax = limits::kHeadBytesMax + 4 * 1024;

}  // namespace

bool AnswerStream::Takes(const HttpResponse& head, std::optional<std::uint64_t> length) {
  using Framing = ClientStream::Framing;
  if (!PassesAsItComes(context_.tool, head) || context_.dispatching == nullptr) return false;
  HttpResponse told{head.status, head.reason, head.headers, {}};
  StripOwnFields(told.headers);
  DecorateBegun(*context_.dispatching, told);
  framing_ = length ? Framing::kLength : wire_.is_http10 ? Framing::kUntilClose : Framing::kChunked;
  head_.resize(kStreamHeadBytesMax);
  HeadWriter writer(head_.data(), head_.size());
  writer.StartResponse(told.status, told.reason);
  for (const auto& [name, value] : told.headers) writer.Add(name, value);
  if (length) writer.ContentLength(*length);
  if (framing_ == Framing::kChunked) writer.Chunked();
  if (!keeps()) writer.ConnectionClose();
  writer.End();
  head_.resize(writer.view().size());
  status_ = head.status;
  return writer.ok();
}

Task<void> AnswerStream::Pass(std::string_view piece, std::size_t queued_max) {
  if (!has_begun()) stream_.Begin(std::exchange(head_, {}), framing_);
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
