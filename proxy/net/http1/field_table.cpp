// Field names to ids, by length first: most names of a head are told apart by it alone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proxy/net/http1/message_head.h"

namespace recourse {
namespace {

// A word at a time, the last one overlapping the one before it.
template <class Word, std::size_t kLength>
bool IsInWords(const char* name, const char* literal) {
  constexpr Word kBlanks = static_cast<Word>(0x2020'2020'2020'2020);
  for (std::size_t at = 0;; at = std::min(at + sizeof(Word), kLength - sizeof(Word))) {
    Word is, wanted;
    std::memcpy(&is, name + at, sizeof is);
    std::memcpy(&wanted, literal + at, sizeof wanted);
    if (static_cast<Word>(is | kBlanks) != wanted) return false;
    if (at == kLength - sizeof(Word)) return true;
  }
}

// `literal` in lower case. Setting bit 0x20 maps no token byte other than its upper-case twin onto
// a letter, a digit or '-'.
template <std::size_t kSize>
bool Is(const char* name, const char (&literal)[kSize]) {
  constexpr std::size_t kLength = kSize - 1;
  if constexpr (kLength >= sizeof(std::uint64_t)) {
    return IsInWords<std::uint64_t, kLength>(name, literal);
  } else if constexpr (kLength >= sizeof(std::uint32_t)) {
    return IsInWords<std::uint32_t, kLength>(name, literal);
  } else {
    return IsInWords<std::uint8_t, kLength>(name, literal);
  }
}

FieldId ByPrefix(std::string_view name) {
  if (name.size() == 16 && Is(name.data(), "recourse-session")) return FieldId::kRecourseSession;
  if (name.size() > 9 && Is(name.data(), "recourse-")) return FieldId::kRecourseOwn;
  if (name.size() > 12 && Is(name.data(), "x-forwarded-")) return FieldId::kForwarded;
  return FieldId::kOther;
}

FieldId OfLength10(const char* name) {
  if (Is(name, "connection")) return FieldId::kConnection;
  if (Is(name, "keep-alive")) return FieldId::kKeepAlive;
  if (Is(name, "set-cookie")) return FieldId::kSetCookie;
  if (Is(name, "tracestate")) return FieldId::kTracestate;
  if (Is(name, "x-sendfile")) return FieldId::kAccelRedirect;
  return ByPrefix({name, 10});
}

FieldId OfLength13(const char* name) {
  if (Is(name, "authorization")) return FieldId::kAuthorization;
  if (Is(name, "recourse-flow")) return FieldId::kRecourseFlow;
  if (Is(name, "x-http-method")) return FieldId::kMethodOverride;
  if (Is(name, "x-script-name")) return FieldId::kMethodOverride;
  if (Is(name, "x-rewrite-url")) return FieldId::kMethodOverride;
  return ByPrefix({name, 13});
}

FieldId OfLength14To16(std::string_view name) {
  const char* const text = name.data();
  if (name.size() == 14) {
    if (Is(text, "content-length")) return FieldId::kContentLength;
    if (Is(text, "http2-settings")) return FieldId::kHttp2Settings;
    if (Is(text, "x-original-url") || Is(text, "x-original-uri") || Is(text, "x-override-url")) {
      return FieldId::kMethodOverride;
    }
  } else if (name.size() == 15) {
    if (Is(text, "idempotency-key")) return FieldId::kIdempotencyKey;
    if (Is(text, "recourse-intent")) return FieldId::kRecourseIntent;
  } else {
    if (Is(text, "content-encoding")) return FieldId::kContentEncoding;
    if (Is(text, "proxy-connection")) return FieldId::kProxyConnection;
    if (Is(text, "x-traversal-path")) return FieldId::kMethodOverride;
    if (Is(text, "x-accel-redirect")) return FieldId::kAccelRedirect;
  }
  return ByPrefix(name);
}

FieldId OfLength17AndMore(std::string_view name) {
  const char* const text = name.data();
  switch (name.size()) {
    case 17:
      if (Is(text, "transfer-encoding")) return FieldId::kTransferEncoding;
      if (Is(text, "x-method-override")) return FieldId::kMethodOverride;
      break;
    case 18:
      if (Is(text, "proxy-authenticate")) return FieldId::kProxyAuthenticate;
      break;
    case 19:
      if (Is(text, "proxy-authorization")) return FieldId::kProxyAuthorization;
      if (Is(text, "idempotent-replayed")) return FieldId::kRecourseOwn;
      break;
    case 22:
      if (Is(text, "x-http-method-override")) return FieldId::kMethodOverride;
      break;
    default:
      break;
  }
  return ByPrefix(name);
}

FieldId UpToLength9(std::string_view name) {
  const char* const text = name.data();
  switch (name.size()) {
    case 2:
      return Is(text, "te") ? FieldId::kTe : FieldId::kOther;
    case 3:
      return Is(text, "via") ? FieldId::kVia : FieldId::kOther;
    case 4:
      if (Is(text, "host")) return FieldId::kHost;
      return Is(text, "date") ? FieldId::kDate : FieldId::kOther;
    case 6:
      if (Is(text, "cookie")) return FieldId::kCookie;
      return Is(text, "expect") ? FieldId::kExpect : FieldId::kOther;
    case 7:
      if (Is(text, "upgrade")) return FieldId::kUpgrade;
      if (Is(text, "trailer")) return FieldId::kTrailer;
      return Is(text, "baggage") ? FieldId::kBaggage : FieldId::kOther;
    case 8:
      return Is(text, "x-method") ? FieldId::kMethodOverride : FieldId::kOther;
    case 9:
      if (Is(text, "path-info")) return FieldId::kMethodOverride;
      if (Is(text, "forwarded")) return FieldId::kForwarded;
      return Is(text, "x-real-ip") ? FieldId::kForwarded : FieldId::kOther;
    default:
      return FieldId::kOther;
  }
}

}  // namespace

FieldId FieldIdOf(std::string_view name) {
  const char* const text = name.data();
  switch (name.size()) {
    case 10:
      return OfLength10(text);
    case 11:
      if (Is(text, "script-name")) return FieldId::kMethodOverride;
      return Is(text, "traceparent") ? FieldId::kTraceparent : ByPrefix(name);
    case 12:
      if (Is(text, "content-type")) return FieldId::kContentType;
      return Is(text, "max-forwards") ? FieldId::kMaxForwards : ByPrefix(name);
    case 13:
      return OfLength13(text);
    case 14:
    case 15:
    case 16:
      return OfLength14To16(name);
    default:
      return name.size() < 10 ? UpToLength9(name) : OfLength17AndMore(name);
  }
}

}  // namespace recourse
