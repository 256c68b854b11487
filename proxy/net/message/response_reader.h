// Reads a backend's answer on the data plane.
#pragma once

#include "filters/upstream.h"
#include "proxy/net/http1/message_head.h"
#include "proxy/net/loop/io_thread.h"
#include "proxy/net/message/body_decoder.h"
#include "proxy/net/message/upstream_stream.h"

namespace recourse {

// What to do with interim answers (1xx): kSkip passes over them, bounded, and takes 101 for an
// error, as nobody asked for it; kReturn hands each out, also 101, and the caller consumes and
// bounds them.
enum class Interim : std::uint8_t { kSkip, kReturn };

// Counts interim answers against kInterimResponsesMax and kInterimBytesMax.
class InterimBudget {
 public:
  // False: too many, or too large together.
  bool Take(const Head& head) {
    bytes_ += head.size;
    return ++count_ <= limits::kInterimResponsesMax && bytes_ <= limits::kInterimBytesMax;
  }
  bool is_empty() const { return count_ == 0; }

 private:
  int count_ = 0;
  std::size_t bytes_ = 0;
};
inline constexpr std::string_view kTooManyInterim = "too many interim answers";

// Reads until a head with a final status (200 and up) stands at buffer.begin; `head`, which is
// taken from `heads` when there is something to read if it is null, then holds views of it, and the
// bytes after head.size are the body's. On failure the error code is kBackendTimeout, kBackendReset
// or kBackendProtocol; `*saw_bytes` tells whether any byte came.
Task<Result<void>> ReadResponseHead(UpstreamStream& stream, ReadBuffer& buffer,
                                    std::string_view method, ObjectPool<Head>& heads,
                                    PooledHead& head, bool* saw_bytes, Interim interim);

// Whose answer is read, and where what is missing for it is waited for.
struct AnswerRoom {
  CallKeeper* keeper = nullptr;  // null: the answer is bounded by its size alone
  IoThread& thread;

  // There is room for an answer of `bytes` in all.
  bool Has(std::size_t bytes) const;
  // Waits for it. False: there was none for kAnswerRoomFor, or until the call's time was over;
  // meanwhile nothing is read, so that the backend waits as well.
  Task<bool> Wait(std::size_t bytes, const UpstreamStream& stream) const;
};

// Reads the body that `head` announces whole into `answer`, up to `bytes_max`. Never fails: what
// is missing is told in answer.body_complete, over_cap and until_close.
Task<void> ReadBody(UpstreamStream& stream, ReadBuffer& buffer, const Head& head,
                    std::size_t bytes_max, AnswerRoom room, Answer& answer);

// The same, and each piece goes on through `relay` as soon as it is here; what ends the body is
// kept back there. What is over the cap, or has no room, is not held here. The time that the client
// takes is added to the stream's `deadline`.
Task<void> RelayBody(AnswerRelay& relay, UpstreamStream& stream, ReadBuffer& buffer,
                     const Head& head, std::size_t bytes_max, AnswerRoom room, MonoTime deadline,
                     Answer& answer);

// The same with a sink in place of answer.response.body, until it wants no more.
Task<void> ReadBodyInto(BodySink& sink, UpstreamStream& stream, ReadBuffer& buffer,
                        const Head& head, AnswerRoom room, Answer& answer);

}  // namespace recourse
