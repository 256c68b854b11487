// Field names to ids: length and two letters of a name say which known name it can be at all.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proxy/net/http1/message_head.h"

namespace recourse {
namespace {

// In lower case.
struct KnownField {
  std::string_view name;
  FieldId id = FieldId::kOther;
};
constexpr KnownField kKnownFields[] = {
    {"authorization", FieldId::kAuthorization},
    {"baggage", FieldId::kBaggage},
    {"connection", FieldId::kConnection},
    {"content-encoding", FieldId::kContentEncoding},
    {"content-length", FieldId::kContentLength},
    {"content-type", FieldId::kContentType},
    {"cookie", FieldId::kCookie},
    {"date", FieldId::kDate},
    {"expect", FieldId::kExpect},
    {"forwarded", FieldId::kForwarded},
    {"host", FieldId::kHost},
    {"http2-settings", FieldId::kHttp2Settings},
    {"idempotency-key", FieldId::kIdempotencyKey},
    {"idempotent-replayed", FieldId::kRecourseOwn},
    {"keep-alive", FieldId::kKeepAlive},
    {"max-forwards", FieldId::kMaxForwards},
    {"path-info", FieldId::kMethodOverride},
    {"proxy-authenticate", FieldId::kProxyAuthenticate},
    {"proxy-authorization", FieldId::kProxyAuthorization},
    {"proxy-connection", FieldId::kProxyConnection},
    {"recourse-flow", FieldId::kRecourseFlow},
    {"recourse-intent", FieldId::kRecourseIntent},
    {"recourse-session", FieldId::kRecourseSession},
    {"script-name", FieldId::kMethodOverride},
    {"set-cookie", FieldId::kSetCookie},
    {"te", FieldId::kTe},
    {"traceparent", FieldId::kTraceparent},
    {"tracestate", FieldId::kTracestate},
    {"trailer", FieldId::kTrailer},
    {"transfer-encoding", FieldId::kTransferEncoding},
    {"upgrade", FieldId::kUpgrade},
    {"via", FieldId::kVia},
    {"x-accel-redirect", FieldId::kAccelRedirect},
    {"x-http-method", FieldId::kMethodOverride},
    {"x-http-method-override", FieldId::kMethodOverride},
    {"x-method", FieldId::kMethodOverride},
    {"x-method-override", FieldId::kMethodOverride},
    {"x-original-uri", FieldId::kMethodOverride},
    {"x-original-url", FieldId::kMethodOverride},
    {"x-override-url", FieldId::kMethodOverride},
    {"x-real-ip", FieldId::kForwarded},
    {"x-rewrite-url", FieldId::kMethodOverride},
    {"x-script-name", FieldId::kMethodOverride},
    {"x-sendfile", FieldId::kAccelRedirect},
    {"x-traversal-path", FieldId::kMethodOverride},
};

constexpr std::size_t kFieldPlaces = 128;
constexpr std::size_t PlaceOf(std::string_view name) {
  const auto letter = [name](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(name.data()[at]) | 0x20);
  };
  const std::size_t size = name.size();
  return (size * 7 + letter(size / 2) * 2 + letter(size - 1) * 3) % kFieldPlaces;
}

// One place for each of them: two that share one do not compile.
constexpr auto kFieldAt = [] {
  std::array<KnownField, kFieldPlaces> fields{};
  for (const KnownField& field : kKnownFields) {
    KnownField& place = fields[PlaceOf(field.name)];
    if (!place.name.empty()) throw "PlaceOf has to be another one";
    place = field;
  }
  return fields;
}();

// Whether `size` bytes of a name are those of `lower`, a word at a time, the last one overlapping
// the one before it. Setting bit 0x20 maps no token byte other than its upper-case twin onto a
// letter, a digit or '-'.
template <class Word>
bool IsInWords(const char* name, const char* lower, std::size_t size) {
  constexpr Word kBlanks = static_cast<Word>(0x2020'2020'2020'2020);
  for (std::size_t at = 0;; at = std::min(at + sizeof(Word), size - sizeof(Word))) {
    Word is, wanted;
    std::memcpy(&is, name + at, sizeof is);
    std::memcpy(&wanted, lower + at, sizeof wanted);
    if (static_cast<Word>(is | kBlanks) != wanted) return false;
    if (at == size - sizeof(Word)) return true;
  }
}

bool BeginsWith(std::string_view name, std::string_view lower) {
  const std::size_t size = lower.size();
  if (name.size() < size) return false;
  if (size >= sizeof(std::uint64_t)) {
    return IsInWords<std::uint64_t>(name.data(), lower.data(), size);
  }
  if (size >= sizeof(std::uint32_t)) {
    return IsInWords<std::uint32_t>(name.data(), lower.data(), size);
  }
  return IsInWords<std::uint8_t>(name.data(), lower.data(), size);
}

FieldId ByPrefix(std::string_view name) {
  constexpr std::string_view kOurs = "recourse-", kForwarded = "x-forwarded-";
  const char first = static_cast<char>(name.front() | 0x20);
  if (first == 'r' && name.size() > kOurs.size() && BeginsWith(name, kOurs)) {
    return FieldId::kRecourseOwn;
  }
  if (first == 'x' && name.size() > kForwarded.size() && BeginsWith(name, kForwarded)) {
    return FieldId::kForwarded;
  }
  return FieldId::kOther;
}

}  // namespace

FieldId FieldIdOf(std::string_view name) {
  if (name.empty()) return FieldId::kOther;
  const KnownField& known = kFieldAt[PlaceOf(name)];
  if (known.name.size() == name.size() && BeginsWith(name, known.name)) return known.id;
  return ByPrefix(name);
}

}  // namespace recourse
