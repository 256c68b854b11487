// One read on its way: what the parts of the read lane and its side tasks share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "filters/credentials/credentials.h"
#include "policy/model/override_scan.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/request_facts.h"
#include "proxy/exchange/tunnel.h"
#include "proxy/lanes/read_tap.h"
#include "proxy/net/message/response_reader.h"

namespace recourse {

// Where a stream of events stands (HTML, section 9.2.6). Of an event that has begun a client makes
// nothing when the stream ends.
class EventBoundary {
 public:
  void Take(std::string_view bytes) {
    for (const char c : bytes) Take(c);
  }
  bool IsBetween() const { return line_ == Line::kNone && !has_begun_; }

 private:
  enum class Line : std::uint8_t { kNone, kComment, kField };
  void Take(char c) {
    const bool ends_line = c == '\n' || c == '\r';
    const bool is_second = c == '\n' && std::exchange(after_return_, false);
    after_return_ = c == '\r';
    if (!ends_line) {
      if (line_ == Line::kNone) line_ = c == ':' ? Line::kComment : Line::kField;
    } else if (!is_second) {
      has_begun_ = line_ == Line::kField || (line_ == Line::kComment && has_begun_);
      line_ = Line::kNone;
    }
  }

  Line line_ = Line::kNone;  // that has begun
  bool has_begun_ = false;
  bool after_return_ = false;
};

struct ReadState {
  // All outlive it. `seen_by` may be null.
  ReadState(Exchange& of, ReadTap* seen_by, std::string_view content_type, Millis otherwise)
      : exchange(of),
        request(of.request),
        backend(request.route.match.backend),
        tool(request.route.match.tool),
        is_endpoint(backend->has_endpoint() && request.route.match.path == backend->endpoint),
        is_last(HasUnexpectedBody(request.head)),
        upgrade(tool != nullptr && !is_last ? AskedUpgrade(request.head, tool->upgrades)
                                            : std::string_view()),
        patience(tool != nullptr && tool->timeout ? *tool->timeout
                                                  : backend->timeout.value_or(otherwise)),
        overrides(content_type),
        tap(seen_by) {}

  // All of the request has gone to the backend.
  bool HasAsked() const { return whole || uploaded.is_set(); }

  // What a backend says last on a kept connection that was silent for too long (RFC 9110 15.5.9)
  // crosses the next request, and answers none that was all here. One that has said something
  // before, or goes on with the connection, has read the request.
  bool IsAboutSilence() const {
    return head->status == 408 && !head->keep_alive && whole && interim.is_empty();
  }

  Exchange& exchange;
  ServedRequest& request;
  const Backend* const backend;
  const Tool* const tool;          // null: none of the policy matches
  const bool is_endpoint;          // where the body says what a call is, whichever method this is
  const bool is_last;              // on the connection to the backend
  const std::string_view upgrade;  // asked for and allowed; empty: none
  const Millis patience;  // with the backend, for its first byte and for progress of an upload
  BufferPool::Buffer head_memory;  // of the request, then of what the client is told
  std::span<char> request_room;    // in it, for the request as it goes on
  std::string_view request_head;
  std::size_t span_id_at = 0;  // of a traced call
  BodyDecoder::Piece first;    // what of the request body is here already
  bool chunked_upload = false;
  bool whole = false;       // the request body is all here, so the request can be sent again
  bool sent_whole = false;  // nothing of what is here is missing upstream, which may be used again
  std::unique_ptr<UpstreamStream> upstream;
  ReadBuffer up;
  PooledHead head;         // of the response, once any of it is here
  MonoTime head_due{};     // when it must have come
  bool answering = false;  // it has come
  bool replaced = false;   // by an answer of ours, as it could not be passed on
  Promise<bool> uploaded;
  bool uploading = false;
  bool stopping = false;              // the upload is to end
  std::optional<Error> upload_error;  // why the client's body could not be read
  InterimBudget interim;
  bool head_request = false;
  Promise<bool> watched;
  bool watching = false;
  bool half_closed = false;             // the client will send nothing more, and may be gone
  bool left = false;                    // the client is gone
  OverrideScan overrides;               // of the request body
  ReadCredentials own;                  // that the policy has for the backend
  ReadTap* const tap;                   // of the protocol that it is in; null: of plain HTTP
  bool is_listening = false;            // a stream that lasts as long as its session does
  bool has_events = false;              // a stream that is taken up again when it has ended
  std::optional<EventBoundary> events;  // where it stands; unset: nobody can tell
  MonoTime heard{};                     // when anything came of it
  bool is_limited = false;              // it ends if it stays quiet
};

// Fields of a backend's head that go no further.
inline constexpr std::uint64_t kDroppedFromBackend =
    Bit(FieldId::kRecourseOwn) | Bit(FieldId::kAccelRedirect);

}  // namespace recourse
