// A chunked body means the same however the network cuts it. The first byte says where to cut.
#include <string>

#include "proxy/net/http1/message_head.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {
namespace {

struct Decoded {
  std::string data;
  std::size_t consumed = 0;
  bool done = false;
  bool bad = false;
  friend bool operator==(const Decoded&, const Decoded&) = default;
};

Decoded Decode(std::string_view in, std::size_t piece_bytes) {
  Decoded decoded;
  ChunkDecoder decoder;
  while (decoded.consumed < in.size() && !decoded.done && !decoded.bad) {
    const ExactBytes piece(in.substr(decoded.consumed, piece_bytes));
    std::size_t used = 0;
    while (used < piece.view().size() && !decoded.done && !decoded.bad) {
      const ChunkDecoder::Step step = decoder.Feed(piece.view().substr(used));
      RC_CHECK(step.consumed > 0 || step.bad);
      RC_CHECK(step.data.size() <= step.consumed);
      decoded.data += step.data;
      used += step.consumed;
      decoded.done = step.done;
      decoded.bad = step.bad;
    }
    decoded.consumed += used;
  }
  RC_CHECK(decoder.framing_bytes() + decoded.data.size() <= in.size());
  // How far it read before it knew that the body is bad depends on the cut.
  if (decoded.bad) decoded.consumed = 0;
  return decoded;
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view body = bytes.substr(1);
  const Decoded whole = Decode(body, body.size() + 1);
  const Decoded pieces = Decode(body, 1 + static_cast<unsigned char>(bytes[0]) % 16);
  if (whole.bad || pieces.bad) {
    RC_CHECK(whole.bad == pieces.bad);
  } else {
    RC_CHECK(whole == pieces);
  }
}

}  // namespace recourse
