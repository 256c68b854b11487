// The body of one message, piece by piece out of a connection's buffer, whatever its framing.
#pragma once

#include <algorithm>

#include "proxy/net/http1/message_head.h"
#include "proxy/net/loop/io_thread.h"

namespace recourse {

// A buffer of one connection with unread bytes in [begin, end).
struct ReadBuffer {
  BufferPool::Buffer memory;
  std::size_t begin = 0, end = 0;
  BufferPool* pool = nullptr;  // where ReadInto() has memory from, and gives it back

  std::string_view unread() const { return {memory.get() + begin, end - begin}; }
  char* free_space() { return memory.get() + end; }
  std::size_t free_size() const { return limits::kRelayBufferBytes - end; }
  void Consume(std::size_t size) {
    begin += size;
    if (begin == end) begin = end = 0;
  }
  // Makes room at the end by moving the unread bytes to the front.
  void Compact();
};

namespace detail {

struct BufferRoom {
  ReadBuffer& buffer;
  std::size_t most = limits::kRelayBufferBytes;
  std::span<char> Take() const {
    if (!buffer.memory) buffer.memory = buffer.pool->Take();
    return {buffer.free_space(), std::min(buffer.free_size(), most)};
  }
  void Drop() const {
    if (buffer.begin == buffer.end) buffer.memory.reset();
  }
};

}  // namespace detail

// Reads what is there into the buffer, which has free space or no memory yet. Returns as
// ReadSome(). While it waits, a buffer without unread bytes holds no memory.
inline auto ReadInto(Connection& connection, ReadBuffer& buffer) {
  return detail::ReadAwaiter(connection, detail::BufferRoom{buffer});
}

class BodyDecoder {
 public:
  enum class End : std::uint8_t {
    kMore,      // not at the end yet
    kComplete,  // the framing says so
    kClosed,    // a body without framing ended with a clean close: complete as far as one can tell
    kCut,       // the connection ended too early
    kBad,       // malformed framing
  };
  struct Piece {
    std::string_view data;  // decoded, inside the buffer; valid until the buffer is read into
    End end = End::kMore;
    Error error{};  // kBad: kMalformedRequest, kHeaderTooLarge or kRequestTooLarge; static reason
  };

  enum class Of : std::uint8_t {
    kRequest,
    kAnswer,  // some servers flush every byte, and those who ask them pay for it
  };
  BodyDecoder(BodyKind kind, std::uint64_t length, Of of = Of::kRequest)
      : kind_(kind), of_(of), left_(length) {}

  // Decodes what the buffer holds and consumes it. No data and kMore: read more into the buffer,
  // or ask Ended() what it means that nothing came.
  Piece Decode(ReadBuffer& buffer);
  // What it means that the connection ended; `clean` is an end of stream without error.
  End Ended(bool clean) const {
    return kind_ == BodyKind::kUntilClose && clean ? End::kClosed : End::kCut;
  }
  // Bytes of data that the framing has announced and that have not come yet.
  std::uint64_t announced() const {
    return kind_ == BodyKind::kLength ? left_ : chunks_.chunk_bytes_left();
  }
  // How much to read at most, so that bytes after the body stay in the kernel.
  std::size_t ReadLimit(std::size_t room) const {
    return kind_ == BodyKind::kLength && left_ < room ? static_cast<std::size_t>(left_) : room;
  }

 private:
  Piece DecodeChunks(ReadBuffer& buffer);

  // Framing of a request may cost four bytes for each byte of data, plus some.
  static constexpr std::uint64_t kFramingSlack = 64 * 1024;

  const BodyKind kind_;
  const Of of_;
  std::uint64_t left_;
  std::uint64_t data_bytes_ = 0;
  ChunkDecoder chunks_;
};

}  // namespace recourse
