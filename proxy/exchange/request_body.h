// The body of one request, whatever carries it.
#pragma once

#include <cstdint>
#include <span>

#include "proxy/net/message/body_decoder.h"

namespace recourse {

class RequestBody {
 public:
  using Piece = BodyDecoder::Piece;

  virtual ~RequestBody() = default;

  // The head stands until the answer is made, also when more of the body is read than came with it.
  // Before Begin().
  virtual void KeepHead() = 0;
  // What of it is here already. Once, before all else.
  virtual Piece Begin() = 0;
  // There is none: its head is not the next one. May be called after Begin().
  virtual void Skip() = 0;
  // What comes next, in no more time than it may take and not after `latest`. kBad: it is
  // malformed, or broke off; the error says which.
  virtual Task<Piece> Read(MonoTime latest) = 0;
  // Bytes that its framing has announced and that have not come yet.
  virtual std::uint64_t announced() const = 0;
  // What is being read fails, and whatever is after it.
  virtual void Stop() = 0;
  // The client sends none before it has heard that it may.
  virtual bool is_awaited() const = 0;
  // Says so. False: the client has not taken that whole, and must be sent nothing more.
  virtual Task<bool> Ask() = 0;

  // The memory that the request came in: what is free behind it, if it is all that came (before
  // Begin; else empty). Take() gives it away; Drop() lets go of it if nothing in it is unread.
  virtual std::span<char> FreeRoom() = 0;
  virtual BufferPool::Buffer Take() = 0;
  virtual void Drop() = 0;
};

}  // namespace recourse
