// What a protocol sees, and says, of a read on its way.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/error.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// Of one read; outlives it.
class ReadTap {
 public:
  virtual ~ReadTap() = default;

  // The request's body where it was read whole; nullptr: it comes from the client meanwhile.
  virtual const std::string* body() const { return nullptr; }
  // The head of the answer has come: the request is not sent again. True: if the answer is events,
  // they are a stream that lasts as long as its session.
  virtual bool TakeHead(int status, std::string_view content_type, bool is_encoded) = 0;
  struct Piece {
    std::string_view data;
    bool ends = false;
    bool may_grow = false;      // more may be said than the backend does
    bool is_listening = false;  // it is of such a stream
  };
  // Before the client has it. Gives what the client is told behind it, which stands until the next
  // call.
  virtual std::string_view Take(const Piece& piece) = 0;
  // The answer broke off. True: the client is told so at its end.
  virtual bool TellsOfBreak() const { return false; }
  // A problem in place of an answer, as clients of the protocol read it.
  virtual HttpResponse Failure(HttpResponse problem, ErrorCode code) const {
    (void)code;
    return problem;
  }
};

}  // namespace recourse
