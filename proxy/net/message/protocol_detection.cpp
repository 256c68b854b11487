// HTTP and TLS differ in their first byte; everything behind it only tells how far to believe it.
#include "proxy/net/message/protocol_detection.h"

#include <algorithm>
#include <optional>

#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"
#include "proxy/net/http1/character_classes.h"

namespace recourse {
namespace {

constexpr std::string_view kHttp2Preface = "PRI * HTTP/2";
constexpr char kHandshakeRecord = 22;
constexpr char kClientHello = 1;
constexpr std::size_t kRecordHeadBytes = 5;
constexpr std::size_t kRecordBytesMax = 1U << 14U;
constexpr std::size_t kMessageHeadBytes = 4;
constexpr std::size_t kServerNameExtension = 0;
constexpr char kHostNameType = 0;
constexpr std::size_t kServerNameBytesMax = 253;

ProtocolDetection More() { return {}; }
ProtocolDetection Is(ClientOpening opening) { return {true, opening, {}, {}}; }
ProtocolDetection BadTls(std::string_view problem) {
  return {true, ClientOpening::kBadTls, {}, problem};
}
ProtocolDetection Other(std::string_view problem) {
  return {true, ClientOpening::kOther, {}, problem};
}

// Takes pieces off the front; once one was not there, nothing is.
class Bytes {
 public:
  explicit Bytes(std::string_view in) : rest_(in) {}

  std::string_view Take(std::size_t size) {
    if (size > rest_.size()) {
      is_short_ = true;
      rest_ = {};
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::size_t Number(std::size_t bytes) {
    std::size_t value = 0;
    for (const char c : Take(bytes)) value = value << 8U | static_cast<unsigned char>(c);
    return value;
  }
  // What a length of so many bytes announces.
  std::string_view Vector(std::size_t length_bytes) { return Take(Number(length_bytes)); }
  bool is_short() const { return is_short_; }
  bool is_at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool is_short_ = false;
};

// RFC 6066 3: one name of the type host_name. nullopt: not so, or no host name.
std::optional<std::string> ReadServerName(std::string_view extension) {
  Bytes outer(extension);
  Bytes list(outer.Vector(2));
  const std::string_view type = list.Take(1);
  const std::string_view name = list.Vector(2);
  if (outer.is_short() || !outer.is_at_end() || list.is_short() || !list.is_at_end() ||
      type.front() != kHostNameType) {
    return std::nullopt;
  }
  const bool is_name = !name.empty() && name.size() <= kServerNameBytesMax && name.front() != '.' &&
                       name.back() != '.' && name.find("..") == std::string_view::npos &&
                       std::all_of(name.begin(), name.end(), [](char c) {
                         return CharIs(c, kCharHost) || c == '.' || c == '_';
                       });
  return is_name ? std::optional(ToLower(name)) : std::nullopt;
}

// RFC 8446 4.1.2, of any version of TLS.
ProtocolDetection ReadClientHello(std::string_view body) {
  Bytes hello(body);
  const std::size_t major = hello.Number(1);
  hello.Take(1 + 32);  // minor version, random
  const std::string_view session = hello.Vector(1);
  const std::string_view ciphers = hello.Vector(2);
  const std::string_view compressions = hello.Vector(1);
  const bool is_sound = !hello.is_short() && major == 3 && session.size() <= 32 &&
                        !ciphers.empty() && ciphers.size() % 2 == 0 && !compressions.empty();
  if (!is_sound) return BadTls("a TLS ClientHello that cannot be read");
  ProtocolDetection found = Is(ClientOpening::kTls);
  if (hello.is_at_end()) return found;  // extensions came with TLS 1.2
  Bytes extensions(hello.Vector(2));
  if (hello.is_short() || !hello.is_at_end()) {
    return BadTls("a TLS ClientHello that cannot be read");
  }
  bool has_name = false;
  while (!extensions.is_at_end()) {
    const std::size_t type = extensions.Number(2);
    const std::string_view data = extensions.Vector(2);
    if (extensions.is_short()) return BadTls("a TLS ClientHello that cannot be read");
    if (type != kServerNameExtension) continue;
    auto name = has_name ? std::nullopt : ReadServerName(data);
    if (!name) return BadTls("a TLS ClientHello without one clear server name");
    found.server_name = std::move(*name);
    has_name = true;
  }
  return found;
}

// Collects the message out of its records: peers may cut it anywhere.
ProtocolDetection ReadTls(std::string_view in) {
  std::string message;
  for (;;) {
    if (!in.empty() && in[0] != kHandshakeRecord) return BadTls("TLS records out of order");
    // Some servers take it for TLS whatever stands here.
    if (in.size() > 1 && in[1] != 3) return BadTls("TLS of another version");
    if (in.size() < kRecordHeadBytes) return More();
    Bytes head(in.substr(3, 2));
    const std::size_t size = head.Number(2);
    if (size == 0 || size > kRecordBytesMax) return BadTls("a TLS record of an impossible size");
    in.remove_prefix(kRecordHeadBytes);
    message += in.substr(0, size);
    if (!message.empty() && message.front() != kClientHello) {
      return BadTls("TLS that does not begin with a ClientHello");
    }
    if (message.size() >= kMessageHeadBytes) {
      Bytes announced(std::string_view(message).substr(1, 3));
      const std::size_t whole = announced.Number(3) + kMessageHeadBytes;
      if (whole > limits::kOpeningBytesMax) return BadTls("a TLS ClientHello over 16 KiB");
      // Nothing else may share its records: what follows it is protected by other keys.
      const bool ends_record = in.size() >= size;
      if (message.size() > whole || (message.size() == whole && !ends_record)) {
        return BadTls("a TLS ClientHello that its record goes on behind");
      }
      if (message.size() == whole) return ReadClientHello(message.substr(kMessageHeadBytes));
    }
    if (in.size() < size) return More();
    in.remove_prefix(size);
  }
}

ProtocolDetection ReadHttp(std::string_view in) {
  // As many empty lines as a request may have before it.
  for (int i = 0; i < 2 && in.starts_with('\r'); ++i) {
    if (in.size() < 2) return More();
    if (in[1] != '\n') return Other("neither HTTP nor TLS");
    in.remove_prefix(2);
  }
  if (kHttp2Preface.starts_with(in))
    return in == kHttp2Preface ? Is(ClientOpening::kHttp2) : More();
  if (in.starts_with(kHttp2Preface)) return Is(ClientOpening::kHttp2);
  const auto end = static_cast<std::size_t>(
      std::find_if(in.begin(), in.end(), [](char c) { return !CharIs(c, kCharToken); }) -
      in.begin());
  if (end > limits::kMethodBytesMax) return Other("neither HTTP nor TLS");
  if (end == in.size()) return More();
  if (end == 0 || in[end] != ' ') return Other("neither HTTP nor TLS");
  if (end + 1 == in.size()) return More();
  return CharIs(in[end + 1], kCharTarget) ? Is(ClientOpening::kHttp)
                                          : Other("neither HTTP nor TLS");
}

}  // namespace

ProtocolDetection ReadFirstBytes(std::string_view in) {
  // Bytes behind the bound do not count, so that the answer is the same in whatever pieces they
  // come.
  in = in.substr(0, limits::kOpeningBytesMax);
  if (in.empty()) return More();
  if (!MayBeTls(in)) return ReadHttp(in);
  ProtocolDetection read = ReadTls(in);
  const bool has_room = in.size() < limits::kOpeningBytesMax;
  return read.is_complete || has_room ? read : BadTls("a TLS ClientHello over 16 KiB");
}

}  // namespace recourse
