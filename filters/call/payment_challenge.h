// What a 402 (Payment Required) asks for. Pure.
#pragma once

#include "filters/upstream.h"

namespace recourse {

// Whether it says how to pay, so that the call comes again with a payment: by a challenge (RFC 9110
// 11.6.1), or by the field or the body of x402 (its specification, versions 2 and 1). Any other one
// is a refusal, such as that of a card.
bool AsksForPayment(const Answer& answer);

}  // namespace recourse
