#include "proxy/base/http/content_coding.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr int kWindowBits = 15;
constexpr int kGzipOnly = 16;  // added to the window: a gzip header and nothing else

std::unexpected<Error> Bad(std::string_view reason) {
  return std::unexpected(Error(ErrorCode::kBackendProtocol, reason));
}

// Owns the state of one zlib stream.
class Inflater {
 public:
  explicit Inflater(int window_bits) { is_open_ = inflateInit2(&stream_, window_bits) == Z_OK; }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (is_open_) inflateEnd(&stream_);
  }
  bool is_open() const { return is_open_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  bool is_open_ = false;
};

Result<std::string> Inflate(int window_bits, std::string_view body) {
  Inflater inflater(window_bits);
  if (!inflater.is_open()) return Bad("the answer's encoding cannot be read now");
  const std::size_t bytes_max =
      std::min(limits::kDecodedBytesMax, body.size() * limits::kDecodedRatioMax);
  z_stream& stream = inflater.stream();
  // zlib does not write to its input; its type only says so when built with ZLIB_CONST.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  stream.avail_in = static_cast<uInt>(body.size());
  std::string text;
  std::array<char, 16 * 1024> piece;
  for (int state = Z_OK; state != Z_STREAM_END;) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = inflate(&stream, Z_NO_FLUSH);
    if (state == Z_BUF_ERROR) return Bad("the encoded answer is cut off");
    if (state != Z_OK && state != Z_STREAM_END) return Bad("the encoded answer is corrupt");
    text.append(piece.data(), piece.size() - stream.avail_out);
    if (text.size() > bytes_max) return Bad("the encoded answer is too large when decoded");
  }
  if (stream.avail_in != 0) return Bad("bytes follow the end of the encoded answer");
  return text;
}

}  // namespace

Result<std::string> DecodeContent(std::string_view coding, std::string_view body) {
  if (body.size() > limits::kAnswerBytesMax) return Bad("the encoded answer is too large");
  if (EqualsIgnoreCase(coding, "gzip") || EqualsIgnoreCase(coding, "x-gzip")) {
    return Inflate(kWindowBits + kGzipOnly, body);
  }
  if (EqualsIgnoreCase(coding, "deflate")) return Inflate(kWindowBits, body);
  return Bad(coding.find(',') == std::string_view::npos
                 ? "the answer's encoding is not known here; gzip and deflate are"
                 : "the answer is encoded more than once");
}

}  // namespace recourse
