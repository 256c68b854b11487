#include "filters/call/stored_response.h"

#include <algorithm>
#include <array>

#include "filters/call/answers.h"
#include "filters/codec.h"
#include "proxy/base/json/json.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

using Source = Selector::Source;

constexpr std::string_view kRedacted = "\"[redacted]\"";

constexpr std::array<std::string_view, 33> kKeptFields{"accept-patch",
                                                       "accept-post",
                                                       "allow",
                                                       "cache-control",
                                                       "content-digest",
                                                       "content-disposition",
                                                       "content-encoding",
                                                       "content-language",
                                                       "content-location",
                                                       "content-md5",
                                                       "content-range",
                                                       "content-type",
                                                       "date",
                                                       "deprecation",
                                                       "digest",
                                                       "etag",
                                                       "expires",
                                                       "last-modified",
                                                       "link",
                                                       "location",
                                                       "operation-location",
                                                       "preference-applied",
                                                       "repr-digest",
                                                       "request-id",
                                                       "retry-after",
                                                       "sunset",
                                                       "vary",
                                                       "warning",
                                                       "www-authenticate",
                                                       "x-correlation-id",
                                                       "x-request-id",
                                                       "x-total-count",
                                                       "x-trace-id"};

bool HasName(const std::vector<std::string>& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [name](const std::string& other) { return EqualsIgnoreCase(other, name); });
}

bool ReadsBody(const std::vector<Selector>& redact) {
  return std::any_of(redact.begin(), redact.end(), [](const Selector& selector) {
    return selector.source == Source::kAnswerBody;
  });
}

// False: it cannot be read. Adds what was taken out to `taken`.
bool RedactBody(HttpResponse& kept, const std::vector<Selector>& redact, std::string& taken) {
  if (!ReadsBody(redact) || kept.body.empty()) return true;
  if (FindHeader(kept.headers, "Content-Encoding") != nullptr || !ParseJson(kept.body)) {
    return false;
  }
  for (const Selector& selector : redact) {
    if (selector.source != Source::kAnswerBody) continue;
    const auto span = FindJsonSpan(kept.body, selector.name);
    if (!span) continue;
    kept.body.replace(span->at, span->size, kRedacted);
    taken += (taken.empty() ? "" : ", ") + selector.text;
  }
  return true;
}

// The same of a message.
bool RedactMessage(const Codec& codec, HttpResponse& kept, const std::vector<Selector>& redact,
                   std::string& taken) {
  if (!ReadsBody(redact)) return true;
  std::vector<Selector> places;
  std::copy_if(redact.begin(), redact.end(), std::back_inserter(places),
               [](const Selector& selector) { return selector.source == Source::kAnswerBody; });
  return codec.Redact(kept.body, places, kRedacted, taken);
}

void RedactFields(Headers& fields, const std::vector<Selector>& redact, std::string& taken) {
  for (const Selector& selector : redact) {
    if (selector.source != Source::kAnswerHeader) continue;
    if (FindHeader(fields, selector.name) == nullptr) continue;
    RemoveHeader(fields, selector.name);
    taken += (taken.empty() ? "" : ", ") + selector.text;
  }
}

std::optional<HttpResponse> Kept(const HttpResponse& response,
                                 const std::vector<std::string>& keep_headers,
                                 const std::vector<Selector>& redact, const Codec* of_message) {
  HttpResponse kept{response.status, response.reason, {}, response.body};
  kept.headers.reserve(response.headers.size());
  std::copy_if(response.headers.begin(), response.headers.end(), std::back_inserter(kept.headers),
               [&](const Header& field) {
                 return !IsOwnField(field.first) &&
                        (IsKeptField(field.first) || HasName(keep_headers, field.first));
               });
  std::string taken;
  const bool is_clean = of_message != nullptr ? RedactMessage(*of_message, kept, redact, taken)
                                              : RedactBody(kept, redact, taken);
  if (!is_clean) return std::nullopt;
  RedactFields(kept.headers, redact, taken);
  if (!taken.empty()) kept.headers.emplace_back("Recourse-Redacted", std::move(taken));
  return kept;
}

}  // namespace

bool IsKeptField(std::string_view name) {
  return std::any_of(kKeptFields.begin(), kKeptFields.end(),
                     [name](std::string_view kept) { return EqualsIgnoreCase(kept, name); });
}

std::optional<HttpResponse> StoredResponse(const HttpResponse& response,
                                           const std::vector<std::string>& keep_headers,
                                           const std::vector<Selector>& redact) {
  return Kept(response, keep_headers, redact, nullptr);
}

std::optional<HttpResponse> StoredResponse(const Answer& answer,
                                           const std::vector<std::string>& keep_headers,
                                           const std::vector<Selector>& redact) {
  return Kept(answer.response, keep_headers, redact, answer.message ? answer.codec : nullptr);
}

void CutToSaid(HttpResponse& kept) {
  std::string& body = kept.body;
  if (body.size() <= limits::kSaidBytesMax) return;
  std::size_t end = limits::kSaidBytesMax;
  const auto is_inside = [&] { return (static_cast<unsigned char>(body[end]) & 0xc0U) == 0x80U; };
  while (end > limits::kSaidBytesMax - 4 && is_inside()) --end;
  body.resize(end);
}

}  // namespace recourse
