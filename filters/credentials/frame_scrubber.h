// Takes credentials that only Recourse has out of what a backend says over a WebSocket (RFC 6455),
// in whichever frames a message is cut. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/credentials/echo_scrubber.h"

namespace recourse {

namespace limits {
// Of the frames between two parts of what may be a credential.
inline constexpr std::size_t kFramesHeldMax = std::size_t{64} * 1024;
}  // namespace limits

class FrameScrubber {
 public:
  explicit FrameScrubber(EchoScrubber scrubber) : scrubber_(std::move(scrubber)) {}

  // The next bytes: what of them, and of what was held back, may go on; until the next call.
  // nullopt: they cannot be looked through, and nothing more may go on.
  std::optional<std::string_view> Take(std::string_view bytes);

 private:
  // What is known of one message, and where in `raw_` that stands.
  struct Message {
    struct Piece {
      std::size_t at = 0, size = 0;
    };
    std::string text;
    std::vector<Piece> pieces;
  };

  // False: no frame that can be looked through. Takes the whole header in `header_`.
  bool BeginFrame();
  bool HeaderIsWhole() const;
  void EndFrame();
  void TakePayload(std::string_view bytes);
  // Blanks what stands in it. How much of its end may go on as a credential.
  std::size_t Clean(Message& message, bool ends);
  // All but the last `kept` bytes are looked through.
  static void Shorten(Message& message, std::size_t kept);
  void Release();

  const EchoScrubber scrubber_;
  std::string raw_;     // not given out yet
  std::string header_;  // of the frame that begins
  bool in_payload_ = false;
  bool is_control_ = false, is_last_ = false;  // of the frame
  std::uint64_t left_ = 0;                     // of its payload
  Message data_, control_;                     // a control frame may stand between two of a message
  std::string out_;
};

}  // namespace recourse
