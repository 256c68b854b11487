// Reads heads. The main path is HeadReader::ReadRequest and ReadResponse, top to bottom: start
// line, field lines, then what only the whole head can tell (framing, Connection, Host).
#include "proxy/net/http1/message_head.h"

#include <algorithm>
#include <cstring>

#include "proxy/base/http/control_bytes.h"
#include "proxy/base/http/http_message.h"
#include "proxy/net/http1/character_classes.h"
#include "proxy/net/http1/head_scanner.h"

namespace recourse {
namespace {

constexpr std::size_t kVersionBytes = 8;  // "HTTP/1.1"

// Of these a request may have one at most: two could be read as either.
constexpr std::uint64_t kSingleInRequest =
    Bit(FieldId::kHost) | Bit(FieldId::kContentLength) | Bit(FieldId::kTransferEncoding) |
    Bit(FieldId::kContentType) | Bit(FieldId::kContentEncoding) | Bit(FieldId::kAuthorization) |
    Bit(FieldId::kIdempotencyKey) | Bit(FieldId::kRecourseIntent) | Bit(FieldId::kRecourseFlow) |
    Bit(FieldId::kRecourseSession) | Bit(FieldId::kTraceparent) | Bit(FieldId::kExpect);
// We act on these, so they must be ASCII in a request.
constexpr std::uint64_t kAsciiInRequest = kSingleInRequest | Bit(FieldId::kConnection);
// Connection cannot take these away from the backend, or from us.
constexpr std::uint64_t kNeverNominated =
    Bit(FieldId::kHost) | Bit(FieldId::kContentLength) | Bit(FieldId::kTransferEncoding) |
    Bit(FieldId::kIdempotencyKey) | Bit(FieldId::kRecourseIntent) | Bit(FieldId::kRecourseFlow) |
    Bit(FieldId::kRecourseSession) | Bit(FieldId::kTraceparent) | Bit(FieldId::kAuthorization) |
    Bit(FieldId::kContentType) | Bit(FieldId::kContentEncoding) | Bit(FieldId::kCookie);
// Fields of one connection, most of them by RFC 9110 7.6.1, and Expect, which this proxy answers
// itself.
constexpr std::uint64_t kAlwaysHop =
    Bit(FieldId::kConnection) | Bit(FieldId::kProxyConnection) | Bit(FieldId::kKeepAlive) |
    Bit(FieldId::kTe) | Bit(FieldId::kTrailer) | Bit(FieldId::kTransferEncoding) |
    Bit(FieldId::kUpgrade) | Bit(FieldId::kHttp2Settings) | Bit(FieldId::kProxyAuthenticate) |
    Bit(FieldId::kProxyAuthorization) | Bit(FieldId::kExpect);

enum class Side : std::uint8_t { kRequest, kResponse };
enum class Step : std::uint8_t { kOk, kMore, kBad };

template <Side kSide>
class HeadReader {
 public:
  HeadReader(std::string_view in, Head& head)
      : begin_(in.data()),
        at_(begin_),
        end_(begin_ + std::min(in.size(), limits::kHeadBytesMax)),
        head_(head) {}

  ParseResult ReadRequest() {
    Step step = SkipEmptyLines();
    if (step == Step::kOk) step = ReadRequestLine();
    if (step == Step::kOk) step = ReadFields();
    if (step == Step::kOk) step = FinishRequest();
    return Answer(step);
  }

  ParseResult ReadResponse(std::string_view request_method) {
    Step step = ReadStatusLine();
    if (step == Step::kOk) step = ReadFields();
    if (step == Step::kOk) step = FinishResponse(request_method);
    return Answer(step);
  }

 private:
  static constexpr bool kIsRequest = kSide == Side::kRequest;

  ParseResult Answer(Step step) {
    // Bytes behind the bound were not looked at, so the answer is the same in whatever pieces they
    // came.
    if (step == Step::kMore && static_cast<std::size_t>(end_ - begin_) == limits::kHeadBytesMax) {
      step = Fail("head too large", ErrorCode::kHeaderTooLarge);
    }
    if (step == Step::kOk) return {ParseState::kComplete, Error()};
    if (step == Step::kMore) return {ParseState::kNeedMore, Error()};
    head_.keep_alive = false;  // where the next message begins is anyone's guess
    return {ParseState::kBad, error_};
  }

  Step Fail(std::string_view reason, ErrorCode code = ErrorCode::kMalformedRequest) {
    error_ = Error(kIsRequest ? code : ErrorCode::kBackendProtocol, reason);
    return Step::kBad;
  }

  // At most `size` bytes behind `from`, and never behind what there is.
  const char* Limit(const char* from, std::size_t size) const {
    return from + std::min(size, static_cast<std::size_t>(end_ - from));
  }

  static const char* SkipClass(const char* from, const char* limit, CharClass char_class) {
    // Four at a time: this is a third of what a head costs.
    for (; limit - from >= 4; from += 4) {
      if (!CharIs(from[0], char_class)) return from;
      if (!CharIs(from[1], char_class)) return from + 1;
      if (!CharIs(from[2], char_class)) return from + 2;
      if (!CharIs(from[3], char_class)) return from + 3;
    }
    while (from != limit && CharIs(*from, char_class)) ++from;
    return from;
  }

  // A request may have a few empty lines before it (RFC 9112 2.2).
  Step SkipEmptyLines() {
    static constexpr int kEmptyLinesMax = 2;
    for (int i = 0; i < kEmptyLinesMax && at_ != end_ && *at_ == '\r'; ++i) {
      if (end_ - at_ < 2) return Step::kMore;
      if (at_[1] != '\n') return Fail("bare CR");
      at_ += 2;
    }
    return Step::kOk;
  }

  Step ReadRequestLine() {
    const char* const method = at_;
    const char* const method_end = Limit(method, limits::kMethodBytesMax + 1);
    at_ = SkipClass(at_, method_end, kCharToken);
    if (static_cast<std::size_t>(at_ - method) > limits::kMethodBytesMax) {
      return Fail("method too long");
    }
    if (at_ == end_) return Step::kMore;
    if (*at_ != ' ' || at_ == method) return Fail("not an HTTP/1 request line");
    head_.method = {method, static_cast<std::size_t>(at_ - method)};
    ++at_;
    if (const Step step = ReadTarget(); step != Step::kOk) return step;
    return ReadVersion();
  }

  Step ReadTarget() {
    const char* const target = at_;
    const char* const target_end = Limit(target, limits::kTargetBytesMax + 1);
    at_ = SkipClass(at_, target_end, kCharTarget);
    if (static_cast<std::size_t>(at_ - target) > limits::kTargetBytesMax) {
      return Fail("target too long", ErrorCode::kTargetTooLong);
    }
    if (at_ == end_) return Step::kMore;
    if (*at_ != ' ' || at_ == target) return Fail("invalid byte in the request target");
    head_.target = {target, static_cast<std::size_t>(at_ - target)};
    ++at_;
    return SplitTarget() ? Step::kOk : Fail("invalid request target");
  }

  bool SplitTarget() {
    const std::string_view target = head_.target;
    if (head_.method == "CONNECT") {
      head_.form = TargetForm::kAuthority;
      head_.authority = target;
      const std::size_t colon = target.rfind(':');
      return IsAuthority(target) && colon != std::string_view::npos && target.back() != ']';
    }
    if (target.front() == '/') {
      head_.path = target;
      return true;
    }
    if (target == "*") {
      head_.form = TargetForm::kAsterisk;
      return head_.method == "OPTIONS";
    }
    head_.form = TargetForm::kAbsolute;
    const std::size_t colon = std::min(target.find(':'), target.size());
    const std::string_view scheme = target.substr(0, colon);
    const bool is_http = scheme.size() == 4 && EqualsIgnoreCase(scheme, "http");
    const bool is_https = scheme.size() == 5 && EqualsIgnoreCase(scheme, "https");
    if (!(is_http || is_https) || target.substr(colon, 3) != "://") return false;
    const std::string_view rest = target.substr(colon + 3);
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    head_.authority = rest.substr(0, slash);
    // "http://host?query" ends in the authority check: its path would have to be invented.
    head_.path = slash < rest.size() ? rest.substr(slash) : std::string_view("/");
    return IsAuthority(head_.authority);
  }

  // HTTP/d.d; sets head_.minor.
  Step ReadVersionNumber() {
    static constexpr std::string_view kPrefix = "HTTP/";
    if (end_ - at_ >= 8 && std::memcmp(at_, "HTTP/1.1", kVersionBytes) == 0) [[likely]] {
      at_ += kVersionBytes;
      return Step::kOk;  // head_.minor is 1 already
    }
    const std::string_view text(at_, std::min(kVersionBytes, static_cast<std::size_t>(end_ - at_)));
    if (text.substr(0, kPrefix.size()) != kPrefix.substr(0, text.size())) {
      return Fail("not HTTP");
    }
    if (text.size() < kVersionBytes) return Step::kMore;
    if (!CharIs(text[5], kCharDigit) || text[6] != '.' || !CharIs(text[7], kCharDigit)) {
      return Fail("not an HTTP version");
    }
    if (text[5] != '1' || text[7] > '1') {
      return Fail("only HTTP/1.0 and HTTP/1.1 are served", ErrorCode::kVersionNotSupported);
    }
    head_.minor = text[7] - '0';
    at_ += kVersionBytes;
    return Step::kOk;
  }

  Step ReadVersion() {
    if (const Step step = ReadVersionNumber(); step != Step::kOk) return step;
    return SkipCrlf("bytes after the HTTP version");
  }

  Step SkipCrlf(std::string_view reason) {
    if (at_ == end_) return Step::kMore;
    if (*at_ != '\r') return Fail(reason);
    if (end_ - at_ < 2) return Step::kMore;
    if (at_[1] != '\n') return Fail("bare CR");
    at_ += 2;
    return Step::kOk;
  }

  Step ReadStatusLine() {
    if (const Step step = ReadVersionNumber(); step != Step::kOk) return step;
    // SP, three digits, SP: each is refused as soon as it is there. Many servers leave the second
    // blank away with the reason.
    const int read = ReadWholeStatus() ? 5 : 0;
    for (int i = read; i < 5; ++i, ++at_) {
      if (at_ == end_) return Step::kMore;
      if (i == 4 && *at_ == '\r') break;
      const bool is_blank = i == 0 || i == 4;
      if (is_blank ? *at_ != ' ' : !CharIs(*at_, kCharDigit)) return Fail("bad status line");
      if (!is_blank) head_.status = head_.status * 10 + (*at_ - '0');
    }
    if (head_.status < 100) return Fail("status out of range");
    const char* const reason = at_;
    const char* const limit = Limit(reason, limits::kHeaderLineBytesMax);
    const char* const line_end = FindControl(reason, limit, reason);
    if (!IsCrlf(line_end, limit)) return AtOddEnd(reason, line_end, limit);
    head_.reason = {reason, static_cast<std::size_t>(line_end - reason)};
    at_ = line_end + 2;
    return Step::kOk;
  }

  // The same, when all of it is here and good.
  bool ReadWholeStatus() {
    if (end_ - at_ < 5 || at_[0] != ' ' || at_[4] != ' ') return false;
    const auto digit = [this](int i) { return static_cast<unsigned char>(at_[i]) - unsigned{'0'}; };
    const unsigned first = digit(1), second = digit(2), third = digit(3);
    if (first > 9 || second > 9 || third > 9) return false;
    head_.status = static_cast<int>(first * 100 + second * 10 + third);
    at_ += 5;
    return true;
  }

  static bool IsBlank(char c) { return c == ' ' || c == '\t'; }

  static bool IsCrlf(const char* at, const char* limit) {
    return limit - at >= 2 && at[0] == '\r' && at[1] == '\n';
  }

  // `at` is the first control character of the line, which does not end it, or is its limit.
  Step AtOddEnd(const char* line, const char* at, const char* limit) {
    if (at == limit || (*at == '\r' && limit - at < 2)) return AtLineLimit(line, limit);
    return Fail(*at == '\n' ? "bare LF" : *at == '\r' ? "bare CR" : "control character");
  }

  // The line goes on behind `limit`: it is too long, or its end has not come yet.
  Step AtLineLimit(const char* line, const char* limit) {
    if (static_cast<std::size_t>(limit - line) < limits::kHeaderLineBytesMax) return Step::kMore;
    return Fail("field line too long", ErrorCode::kHeaderTooLarge);
  }

  Step ReadFields() {
    for (;;) {
      if (at_ == end_) return Step::kMore;
      if (*at_ == '\r') {
        if (const Step step = SkipCrlf("bare CR"); step != Step::kOk) return step;
        head_.size = static_cast<std::size_t>(at_ - begin_);
        return Step::kOk;
      }
      if (const Step step = ReadField(); step != Step::kOk) return step;
    }
  }

  Step ReadField() {
    const char* const line = at_;
    const char* const limit = Limit(line, limits::kHeaderLineBytesMax);
    const char* name_end = SkipPlain(line, limit);
    if (name_end == line && IsBlank(*line)) return Fail("folded line");
    if (head_.field_count == limits::kFieldsMax) {
      return Fail("too many fields", ErrorCode::kHeaderTooLarge);
    }
    if (name_end == limit || *name_end != ':') {
      name_end = SkipClass(name_end, limit, kCharToken);
      if (name_end == limit) return AtLineLimit(line, limit);
      const std::string_view name(line, static_cast<std::size_t>(name_end - line));
      if (kIsRequest && !EachCharIs(name, kCharHost)) [[unlikely]] {
        head_.has_odd_name = true;
        if (IsFramingTwin(name)) {
          return Fail("a field of the framing has another sign for '-' in its name");
        }
      }
    }
    if (*name_end != ':' || name_end == line) return Fail("invalid field name");
    const char* value = name_end + 1;
    if (value != limit && *value == ' ') ++value;  // mostly there is one, and no more
    while (value != limit && IsBlank(*value)) [[unlikely]]
      ++value;
    const char* const line_end = FindControl(value, limit, line);
    if (!IsCrlf(line_end, limit)) [[unlikely]]
      return AtOddEnd(line, line_end, limit);
    at_ = line_end + 2;
    const char* value_end = line_end;
    while (value_end != value && IsBlank(value_end[-1])) [[unlikely]]
      --value_end;
    Field& field = head_.fields[head_.field_count++];
    field.name = {line, static_cast<std::size_t>(name_end - line)};
    field.value = {value, static_cast<std::size_t>(value_end - value)};
    field.id = FieldIdOf(field.name);
    field.hop = (Bit(field.id) & kAlwaysHop) != 0;
    return field.id == FieldId::kOther ? Step::kOk : TakeKnown(field);
  }

  Step TakeKnown(const Field& field) {
    const std::uint64_t bit = Bit(field.id);
    if constexpr (kIsRequest) {
      if ((head_.known & bit & kSingleInRequest) != 0) return Fail("repeated field");
      if ((bit & kAsciiInRequest) != 0 && !IsAscii(field.value)) return Fail("non-ASCII value");
    }
    const bool is_first = (head_.known & bit) == 0;
    head_.known |= bit;
    switch (field.id) {
      case FieldId::kContentLength:
        return TakeContentLength(field.value, is_first);
      case FieldId::kTransferEncoding:
        if (!is_first) return Fail("repeated Transfer-Encoding");
        transfer_encoding_ = field.value;
        return Step::kOk;
      case FieldId::kHost:
        head_.host = field.value;
        if (kIsRequest && !IsHostField(field.value)) {
          return Fail(field.value.find('_') == std::string_view::npos
                          ? "invalid Host"
                          : "a host name may not have '_'; use letters, digits, '-' and '.'");
        }
        return Step::kOk;
      case FieldId::kContentType:
        if (kIsRequest && HasListComma(field.value)) return Fail("more than one Content-Type");
        return Step::kOk;
      case FieldId::kKeepAlive:
        head_.keep_alive_timeout_s = KeepAliveTimeout(field.value);
        return Step::kOk;
      case FieldId::kExpect:
        return TakeExpect(field.value);
      case FieldId::kTraceparent:
        if (is_first) head_.traceparent = field.value;
        return Step::kOk;
      default:
        return Step::kOk;
    }
  }

  Step TakeContentLength(std::string_view value, bool is_first) {
    // Mostly it is one. Of answers it may be a list of the same.
    bool is_last = false;
    if (std::uint64_t length = 0; is_first && ReadLength(value, length)) {
      head_.content_length = length;
      is_last = true;
    }
    while (!is_last) {
      const std::size_t comma = kIsRequest ? std::string_view::npos : value.find(',');
      is_last = comma == std::string_view::npos;
      std::uint64_t length = 0;
      if (!ReadLength(TrimBlanks(value.substr(0, comma)), length)) {
        return Fail("invalid Content-Length");
      }
      if (!is_first && length != head_.content_length) return Fail("differing Content-Length");
      head_.content_length = length;
      is_first = false;
      if (!is_last) value.remove_prefix(comma + 1);
    }
    head_.has_content_length = true;
    return Step::kOk;
  }

  Step TakeExpect(std::string_view value) {
    if (!kIsRequest || head_.minor == 0) return Step::kOk;
    if (value.size() != 12 || !EqualsIgnoreCase(value, "100-continue")) {
      return Fail("unknown expectation", ErrorCode::kExpectationFailed);
    }
    head_.expect_continue = true;
    return Step::kOk;
  }

  // Stricter than RFC 9112 6.3: the only coding is one `chunked`, alone, on HTTP/1.1.
  Step CheckFraming() {
    head_.keep_alive = head_.minor == 1;
    if (!head_.Has(FieldId::kTransferEncoding)) {
      if (head_.has_content_length) head_.body = BodyKind::kLength;
      return Step::kOk;
    }
    if (head_.has_content_length) return Fail("Content-Length with Transfer-Encoding");
    if (head_.minor == 0) return Fail("Transfer-Encoding in HTTP/1.0");
    const std::string_view coding = transfer_encoding_;
    if (coding.size() != 7 || !EqualsIgnoreCase(coding, "chunked")) {
      const bool is_one_coding = !coding.empty() && EachCharIs(coding, kCharToken);
      return Fail("unsupported Transfer-Encoding",
                  is_one_coding ? ErrorCode::kNotImplemented : ErrorCode::kMalformedRequest);
    }
    head_.body = BodyKind::kChunked;
    return Step::kOk;
  }

  Step FinishRequest() {
    if (!head_.Has(FieldId::kHost) && head_.minor == 1) return Fail("no Host");
    if (const Step step = CheckFraming(); step != Step::kOk) return step;
    return TakeConnection();
  }

  Step FinishResponse(std::string_view request_method) {
    if (const Step step = CheckFraming(); step != Step::kOk) return step;
    const bool has_framing = head_.body != BodyKind::kNone;
    if (head_.status < 200 || head_.status == 204) {
      // Neither may announce a body; who does may also send one.
      if (has_framing && !(head_.has_content_length && head_.content_length == 0)) {
        head_.keep_alive = false;
      }
      head_.body = BodyKind::kNone;
    } else if (head_.status == 304 || request_method == "HEAD") {
      head_.body = BodyKind::kNone;
    } else if (!has_framing) {
      head_.body = BodyKind::kUntilClose;
      head_.keep_alive = false;
    }
    return TakeConnection();
  }

  // Every token of every Connection line counts (RFC 9110 7.6.1).
  Step TakeConnection() {
    if (!head_.Has(FieldId::kConnection)) return Step::kOk;
    std::size_t tokens = 0;
    for (std::size_t i = 0; i < head_.field_count; ++i) {
      if (head_.fields[i].id != FieldId::kConnection) continue;
      std::string_view list = head_.fields[i].value;
      while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        const std::string_view token = TrimBlanks(list.substr(0, comma));
        list.remove_prefix(std::min(comma + 1, list.size()));
        // Each token is compared with each field: bounded, or a head could cost milliseconds.
        if (++tokens > limits::kFieldsMax) {
          return Fail("too many Connection tokens", ErrorCode::kHeaderTooLarge);
        }
        if (kIsRequest && !EachCharIs(token, kCharToken)) return Fail("invalid Connection");
        Nominate(token);
      }
    }
    return Step::kOk;
  }

  void Nominate(std::string_view token) {
    if (token.size() == 5 && EqualsIgnoreCase(token, "close")) head_.keep_alive = false;
    for (std::size_t i = 0; i < head_.field_count; ++i) {
      Field& field = head_.fields[i];
      if (field.name.size() == token.size() && (Bit(field.id) & kNeverNominated) == 0 &&
          EqualsIgnoreCase(field.name, token)) {
        field.hop = true;
      }
    }
  }

  const char* const begin_;
  const char* at_;
  const char* const end_;
  Head& head_;
  std::string_view transfer_encoding_;
  Error error_;
};

}  // namespace

void Head::Reset() {
  // The fields behind field_count are not read, so they may stay.
  method = target = authority = path = reason = {};
  host = traceparent = {};
  form = TargetForm::kOrigin;
  status = 0;
  minor = 1;
  field_count = size = 0;
  known = 0;
  body = BodyKind::kNone;
  content_length = 0;
  has_content_length = false;
  keep_alive = true;
  expect_continue = false;
  has_odd_name = false;
  keep_alive_timeout_s = -1;
}

ParseResult ParseRequestHead(std::string_view in, Head& head) {
  head.Reset();
  return HeadReader<Side::kRequest>(in, head).ReadRequest();
}

ParseResult ParseResponseHead(std::string_view in, std::string_view request_method, Head& head) {
  head.Reset();
  return HeadReader<Side::kResponse>(in, head).ReadResponse(request_method);
}

}  // namespace recourse
