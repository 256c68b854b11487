#include "filters/credentials/frame_scrubber.h"

#include <algorithm>
#include <span>
#include <utility>

namespace recourse {
namespace {

constexpr unsigned char kFinal = 0x80, kReserved = 0x70, kOpcode = 0x0f, kMasked = 0x80;
constexpr unsigned char kBinary = 2, kCloseFrame = 8, kPong = 10;
constexpr unsigned char kLengthOf16 = 126, kLengthOf64 = 127, kControlMax = 125;

unsigned char ByteAt(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

}  // namespace

std::optional<std::string_view> FrameScrubber::Take(std::string_view bytes) {
  out_.clear();
  while (!bytes.empty()) {
    if (in_payload_) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
      TakePayload(bytes.substr(0, size));
      bytes.remove_prefix(size);
    } else {
      raw_ += bytes.front();
      header_ += bytes.front();
      bytes.remove_prefix(1);
      if (!HeaderIsWhole()) continue;
      if (!BeginFrame()) return std::nullopt;
    }
    if (in_payload_ && left_ == 0) EndFrame();
  }
  Release();
  if (raw_.size() > limits::kFramesHeldMax) return std::nullopt;
  return out_;
}

bool FrameScrubber::HeaderIsWhole() const {
  if (header_.size() < 2) return false;
  const unsigned char length = ByteAt(header_, 1) & ~kMasked;
  const std::size_t more = length == kLengthOf64 ? 8 : length == kLengthOf16 ? 2 : 0;
  return header_.size() == 2 + more;
}

bool FrameScrubber::BeginFrame() {
  const unsigned char first = ByteAt(header_, 0), second = ByteAt(header_, 1);
  const unsigned char opcode = first & kOpcode;
  is_control_ = opcode >= kCloseFrame;
  is_last_ = (first & kFinal) != 0;
  left_ = second & ~kMasked;
  // Reserved bits are an extension's, which may have compressed it; servers mask nothing.
  const bool is_plain = (first & kReserved) == 0 && (second & kMasked) == 0;
  const bool is_known = is_control_ ? opcode <= kPong : opcode <= kBinary;
  const bool is_short = !is_control_ || (is_last_ && left_ <= kControlMax);
  if (!is_plain || !is_known || !is_short) return false;
  if (header_.size() > 2) left_ = 0;
  for (std::size_t at = 2; at < header_.size(); ++at) left_ = left_ << 8 | ByteAt(header_, at);
  header_.clear();
  in_payload_ = true;
  return left_ >> 63 == 0;
}

void FrameScrubber::TakePayload(std::string_view bytes) {
  Message& message = is_control_ ? control_ : data_;
  message.pieces.push_back({raw_.size(), bytes.size()});
  message.text += bytes;
  raw_ += bytes;
  left_ -= bytes.size();
}

void FrameScrubber::EndFrame() {
  in_payload_ = false;
  if (!is_control_ && !is_last_) return;
  Message& message = is_control_ ? control_ : data_;
  Shorten(message, Clean(message, /*ends=*/true));
}

std::size_t FrameScrubber::Clean(Message& message, bool ends) {
  const std::size_t kept = scrubber_.Clean(message.text, ends);
  std::size_t from = 0;
  for (const auto& [at, size] : message.pieces) {
    raw_.replace(at, size, message.text, from, size);
    from += size;
  }
  return kept;
}

void FrameScrubber::Shorten(Message& message, std::size_t kept) {
  std::size_t over = message.text.size() - kept;
  message.text.erase(0, over);
  auto piece = message.pieces.begin();
  for (; piece != message.pieces.end() && over >= piece->size; ++piece) over -= piece->size;
  message.pieces.erase(message.pieces.begin(), piece);
  if (message.pieces.empty()) return;
  message.pieces.front().at += over;
  message.pieces.front().size -= over;
}

void FrameScrubber::Release() {
  Shorten(data_, Clean(data_, /*ends=*/false));
  std::size_t clean = raw_.size();
  for (const Message* const message : {&data_, &control_}) {
    if (!message->pieces.empty()) clean = std::min(clean, message->pieces.front().at);
  }
  out_.append(raw_, 0, clean);
  raw_.erase(0, clean);
  for (Message* const message : {&data_, &control_}) {
    for (Message::Piece& piece : message->pieces) piece.at -= clean;
  }
}

}  // namespace recourse
