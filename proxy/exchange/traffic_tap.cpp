#include "proxy/exchange/traffic_tap.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

// What agents call their key, whatever the backend makes of it.
bool NamesAgentKey(const Field& field) {
  return field.id == FieldId::kIdempotencyKey || field.id == FieldId::kRecourseIntent ||
         EqualsIgnoreCase(field.name, "X-Idempotency-Key") ||
         EqualsIgnoreCase(field.name, "PayPal-Request-Id");
}

}  // namespace

void TrafficTap::MeetHead(const Head& head) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id == FieldId::kContentType) call_.content_type = field.value;
    if (field.id == FieldId::kContentEncoding) keeps_body_ = false;
    if (NamesAgentKey(field)) call_.agent_key = field.value;
  }
}

// False: it is too much, and what was taken is dropped.
bool TrafficTap::Take(HeldFor what, std::string_view data, std::string& to) {
  const std::size_t size = to.size() + data.size();
  const bool is_list = call_.is_message && what == HeldFor::kAnswer;
  if (size <= (is_list ? kSeenListBytesMax : kSeenBodyBytesMax) && hold_.Set(what, size)) {
    to.append(data);
    return true;
  }
  std::string().swap(to);
  (void)hold_.Set(what, 0);
  return false;
}

void TrafficTap::TakeRequest(const BodyDecoder::Piece& piece) {
  call_.has_body = call_.has_body || !piece.data.empty();
  if (keeps_body_) keeps_body_ = Take(HeldFor::kBody, piece.data, call_.body);
}

void TrafficTap::TakeAnswerHead(const Head& head) {
  call_.status = head.status;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id == FieldId::kContentType) {
      call_.answer_type = ToLower(std::string(field.value));
      keeps_answer_ = call_.is_message || call_.answer_type.find("json") != std::string::npos;
    }
  }
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (head.fields[i].id == FieldId::kContentEncoding) keeps_answer_ = false;
  }
}

void TrafficTap::TakeAnswer(const BodyDecoder::Piece& piece) {
  if (keeps_answer_) keeps_answer_ = Take(HeldFor::kAnswer, piece.data, call_.answer);
}

void TrafficTap::Ended() {
  const std::int64_t now_ms = ToUnixMillis(services_.clock->WallNow());
  call_.took_ms = std::max<std::int64_t>(now_ms - call_.wall_ms, 0);
  services_.traffic->Add(std::move(call_));
}

}  // namespace recourse
