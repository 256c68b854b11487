// The only reading of an HTTP/1.1 head on the data plane: strict, pure, without allocation.
// Whatever has two readings is refused; what goes on is always rendered anew from the table of
// views that this yields.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "proxy/base/error.h"
#include "proxy/base/limits.h"

namespace recourse {

// Field names the proxy itself acts on; every other name is kOther.
enum class FieldId : std::uint8_t {
  kOther,
  kHost,
  kConnection,
  kProxyConnection,
  kKeepAlive,
  kTe,
  kTrailer,
  kTransferEncoding,
  kContentLength,
  kUpgrade,
  kHttp2Settings,
  kProxyAuthenticate,
  kProxyAuthorization,
  kExpect,
  kVia,
  kContentType,
  kContentEncoding,
  kTraceparent,
  kTracestate,
  kBaggage,
  kIdempotencyKey,
  kRecourseIntent,
  kRecourseFlow,
  kRecourseSession,
  kAuthorization,
  kMethodOverride,  // or of the path: frameworks take both for the request's own
  kForwarded,
  kDate,
  kSetCookie,
  kRecourseOwn,  // Recourse-*, Idempotent-Replayed: ours alone, dropped from both sides
  kMaxForwards,
  kAccelRedirect,
  kCookie
};

// `name` must be a token; case does not matter.
FieldId FieldIdOf(std::string_view name);

// True for host[:port] as this product reads it: letters, digits, hyphens and dots, or an IPv6
// address in brackets; no userinfo, escapes or non-ASCII; a port of 1-65535 without leading zeros.
bool IsAuthority(std::string_view text);

struct Field {
  std::string_view name, value;  // value without surrounding blanks
  FieldId id = FieldId::kOther;
  bool hop = false;  // hop-by-hop: never forwarded; named by Connection or so by RFC 9110 7.6.1
};

enum class BodyKind : std::uint8_t { kNone, kLength, kChunked, kUntilClose };

// RFC 9112 3.2. kAuthority is only ever CONNECT, and kAsterisk only OPTIONS.
enum class TargetForm : std::uint8_t { kOrigin, kAbsolute, kAuthority, kAsterisk };

// Views point into the bytes that were parsed.
struct Head {
  std::string_view method, target;  // request
  TargetForm form = TargetForm::kOrigin;
  std::string_view authority;  // of an absolute- or authority-form target, which outranks Host
  std::string_view path;       // with its query, "/..."; empty in authority- and asterisk-form
  int status = 0;              // response
  std::string_view reason;
  int minor = 1;  // HTTP/1.<minor>
  std::array<Field, limits::kFieldsMax> fields;
  std::size_t field_count = 0;
  std::uint64_t known = 0;  // the Bit() of each id that some field has, but for kOther
  std::size_t size = 0;     // bytes of the head in the input, with leading empty lines

  BodyKind body = BodyKind::kNone;
  std::uint64_t content_length = 0;  // kLength
  bool has_content_length = false;   // also where no body follows: an answer to HEAD, 304
  bool keep_alive = true;            // the peer's wish, from version and Connection
  bool expect_continue = false;
  // Request: a field's name has '_' or another sign that many servers take for '-'.
  bool has_odd_name = false;
  int keep_alive_timeout_s = -1;       // response: Keep-Alive: timeout=N
  std::string_view host, traceparent;  // empty when absent

  bool Has(FieldId id) const;
  void Reset();
};

enum class ParseState : std::uint8_t { kComplete, kNeedMore, kBad };
struct ParseResult {
  ParseState state = ParseState::kNeedMore;
  Error error;  // kBad: code and static reason
};

// Reads a request head from the start of `in`. Skips at most two leading CRLF. kNeedMore when
// it is not complete yet; kBad as soon as it cannot become valid, including every bound of
// limits.h. Origin-form, absolute-form, authority-form (CONNECT) and "*" are recognised by their
// syntax; the caller decides which it serves.
ParseResult ParseRequestHead(std::string_view in, Head& head);

// Reads a response head. `request_method` decides whether a body follows (HEAD, 204, 304, 1xx).
// kBad carries kBackendProtocol.
ParseResult ParseResponseHead(std::string_view in, std::string_view request_method, Head& head);

// Decodes a chunked body piece by piece, without copying: each call consumes some input and may
// yield a span of body data inside it.
class ChunkDecoder {
 public:
  struct Step {
    std::size_t consumed = 0;
    std::string_view data;  // part of the consumed input
    bool done = false;      // last chunk and trailers read; trailers are dropped
    bool bad = false;
    Error error;  // kMalformedRequest, or kHeaderTooLarge for trailers; static reason
  };
  // Call until consumed == in.size() or done or bad. Bounds: kChunkLineBytesMax per size line,
  // kTrailerBytesMax for trailers, no bare LF, 16 hex digits at most.
  Step Feed(std::string_view in);
  // Data of the current chunk that has not come yet.
  std::uint64_t chunk_bytes_left() const { return at_ == At::kData ? left_ : 0; }
  // Raw bytes of framing seen so far, for the wire/body ratio cap.
  std::uint64_t framing_bytes() const { return framing_bytes_; }

 private:
  enum class At : std::uint8_t {
    kSize,
    kExtension,
    kQuoted,
    kQuotedEscape,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailerStart,
    kTrailerName,
    kTrailerValue,
    kTrailerLf,
    kEndLf,
    kDone,
    kBad
  };
  // Each takes one byte of framing and returns a static reason when it cannot stand there.
  std::string_view TakeFraming(char c);
  std::string_view TakeSizeLine(char c);
  std::string_view TakeTrailer(char c);

  At at_ = At::kSize;
  std::uint64_t left_ = 0;
  std::uint64_t framing_bytes_ = 0;
  std::size_t line_bytes_ = 0;
  std::size_t trailer_bytes_ = 0;
  int digits_ = 0;
};

// A field that is written often, checked and rendered once.
class FieldLine {
 public:
  FieldLine(std::string_view name, std::string_view value);
  // With its CRLF; empty when name or value were not valid.
  std::string_view text() const { return text_; }

 private:
  std::string text_;
};

// Writes heads into a caller's buffer. Every name and value is checked, so nothing that a template
// or a backend made can split a message; framing fields are written here and nowhere else.
class HeadWriter {
 public:
  HeadWriter(char* out, std::size_t capacity) : out_(out), capacity_(capacity) {}
  void StartRequest(std::string_view method, std::string_view target);
  void StartResponse(int status, std::string_view reason);
  // The first line of a head that was read, as it goes on.
  void StartRequest(const Head& head);
  void StartResponse(const Head& head);
  // Refuses Content-Length and Transfer-Encoding: use the calls below.
  void Add(std::string_view name, std::string_view value);
  void Add(const FieldLine& line);
  // Copies a run of already validated fields of a parsed head, leaving out hop-by-hop fields,
  // framing fields, and those whose id is in `drop` (bit set by FieldId).
  void CopyFields(const Head& head, std::uint64_t drop);
  // At most one of these two, once.
  void ContentLength(std::uint64_t length);
  void Chunked();
  void ConnectionClose();
  // Connection and Upgrade, for a request that asks and a 101 that agrees.
  void Upgrade(std::string_view protocol);
  void End();
  // False when something did not fit or was not valid; then nothing of it may be sent.
  bool ok() const { return ok_; }
  std::string_view view() const { return {out_, size_}; }

 private:
  [[gnu::always_inline]] void Raw(std::string_view text) {
    Require(text.size() <= capacity_ - size_);
    if (!ok_ || text.empty()) return;
    std::memcpy(out_ + size_, text.data(), text.size());
    size_ += text.size();
  }
  void Line(std::string_view name, std::string_view value);
  void Require(bool holds) { ok_ = ok_ && holds; }

  char* out_;
  std::size_t capacity_;
  std::size_t size_ = 0;
  bool ok_ = true;
  bool is_framed_ = false;
};

constexpr std::uint64_t Bit(FieldId id) { return std::uint64_t{1} << static_cast<unsigned>(id); }

inline bool Head::Has(FieldId id) const { return (known & Bit(id)) != 0; }

}  // namespace recourse
