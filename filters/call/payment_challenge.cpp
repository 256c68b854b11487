#include "filters/call/payment_challenge.h"

#include <optional>

#include "filters/call/call_values.h"

namespace recourse {

bool AsksForPayment(const Answer& answer) {
  for (const char* const name : {"WWW-Authenticate", "PAYMENT-REQUIRED"}) {
    if (FindHeader(answer.response.headers, name) != nullptr) return true;
  }
  const std::optional<Json> body = ReadAnswerBody(answer);
  return body && body->Find("x402Version") != nullptr;
}

}  // namespace recourse
